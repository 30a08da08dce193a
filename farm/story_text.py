"""A job's story for people, a line an event, and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from db.story import Event, Story
from kernels import codec

NAMELESS = ("at_us", "event", "about")  # fields that a line shows without their names


def lines(found: Story) -> Iterator[str]:
    """`2026-11-30T08:01:02.031Z  leased       attempt=1 … device=cpu-0  epoch 7`, oldest first."""
    job = found.job
    case = job.case
    end = job.verdict or f"no verdict yet, {job.state}"
    about = f"{case.op}/{case.kernel} {case.kind} {case.shape}"
    yield f"job {job.id} of campaign {job.campaign_id}: {about}, {end}"
    for event in found.events:
        told = "  ".join(filter(None, (_words(event), event.about)))
        yield f"{moment(event.at_us)}  {event.event:<11}  {told}"


def _words(event: Event) -> str:
    return " ".join(f"{name}={value}" for name, value in _fields(event).items())


def moment(us: int) -> str:
    """2026-11-30T08:01:02.031Z"""
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(found: Story) -> dict[str, Any]:
    """What `--json` prints: the job's end, and every event with the fields that it has."""
    job = found.job
    return {
        "job": job.id,
        "campaign": job.campaign_id,
        "case_id": job.case_id,
        "backend": job.backend,
        "device_class": job.device_class,
        "state": job.state,
        "verdict": job.verdict,
        "history": [_record(event) for event in found.events],
    }


def _record(event: Event) -> dict[str, Any]:
    about = {"about": event.about} if event.about else {}
    return {"at": moment(event.at_us), "at_us": event.at_us, "event": event.event} | _fields(event) | about


def _fields(event: Event) -> dict[str, Any]:
    """What is said of this event, by name; what isn't said of it is left out."""
    given = {name: codec.encode(getattr(event, name)) for name in Event.__dataclass_fields__}
    return {name: value for name, value in given.items() if value and name not in NAMELESS}
