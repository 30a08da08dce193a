"""Two sides held against each other, cell by cell: campaigns, boards, sources, days, two filter lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from db import campaign, capability, history
from db.cell import SEVERITY, Capability
from db.history import Place
from db.session import Session
from farm.matrix import Matrix
from kernels.errors import UsageError
from kernels.evidence import Verdict

DAY_US = 86_400_000_000
SOURCE = re.compile(r"[0-9a-f]{4,64}")
SIDES = {
    "campaign:3": "what a campaign found, whatever became of it since",
    "device:rtx-3060": "a board or a class, and any other filter line: cells as they are now, by row",
    "source:1a2b3c": "evidence of a source, by the first digits of its digest: two commits' texts have two",
    "at:2026-11-29": "everything as it stood at the end of a day: two commits apart, if they were run",
}
MEANINGS = {
    "broken": "good before, bad after",
    "lost": "a verdict before, none after",
    "changed": "another verdict, as good or as bad",
    "fixed": "bad before, good after",
    "added": "no verdict before",
}
Record = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """The verdicts of one side."""

    verdicts: dict[Place, Verdict]
    by_row: bool  # places don't count: two boards are compared by what they have in common


def side(s: Session, text: str, narrowed: Callable[[str], Matrix]) -> Side:
    """What the words name; UsageError for words that name nothing."""
    key, _, value = text.strip().partition(":")
    if key.lower() in ("campaign", "source", "at") and not value.split()[1:]:
        return Side(_NAMED[key.lower()](s, value.strip()), by_row=False)
    found = (
        (Place(cell.device_class, cell.backend, *cell.row), cell.verdict)
        for cell in narrowed(text).cells
        if cell.verdict
    )
    return Side(_worst(found), by_row=True)


def _of_campaign(s: Session, value: str) -> dict[Place, Verdict]:
    if not (value.isascii() and value.isdigit()):
        raise UsageError(f"campaign {value!r} is no number; write campaign:3")
    campaign.campaign_row(s, int(value[:19]))
    return history.ends(s, int(value))


def _of_source(s: Session, value: str) -> dict[Place, Verdict]:
    if not SOURCE.fullmatch(value):
        raise UsageError(f"source {value!r} is no digest; write 4 to 64 of its digits, as in source:1a2b3c")
    found = [cell for cell in capability.cells(s) if cell.key.source_digest.startswith(value)]
    if not found:
        raise UsageError(f"no evidence of a source {value}…; a cell's page has the digests that ran")
    places = ((cell.device_class, *_row(cell)) for cell in found)
    return _worst((Place(*place), cell.verdict) for place, cell in zip(places, found, strict=True))


def _row(cell: Capability) -> tuple[str, str, str, str, str]:
    key = cell.key
    return key.backend, key.op, key.kernel, key.kind, key.build


def _of_day(s: Session, value: str) -> dict[Place, Verdict]:
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"{value!r} is no day; write at:2026-11-29") from None
    return history.as_of(s, int(day.timestamp()) * 1_000_000 + DAY_US - 1)


_NAMED = {"campaign": _of_campaign, "source": _of_source, "at": _of_day}


def _worst(found: Iterable[tuple[Place, Verdict]]) -> dict[Place, Verdict]:
    worst: dict[Place, Verdict] = {}
    for place, verdict in found:
        worst[place] = min(verdict, worst.get(place, verdict), key=SEVERITY.__getitem__)
    return worst


def changes(before: Side, after: Side) -> Record:
    """Cells that two sides disagree on, sorted by what became of them."""
    by_row = before.by_row and after.by_row
    old, new = (_by_row(one.verdicts) if by_row else one.verdicts for one in (before, after))
    found: dict[str, Any] = {sort: [] for sort in MEANINGS}
    for place in sorted(old.keys() | new.keys()):
        was, now = old.get(place), new.get(place)
        if was != now:
            where = "" if by_row else f"{place.device}/{place.backend}"
            row = "/".join(place[2:])
            found[sort_of(was, now)].append({"where": where, "row": row, "before": was, "after": now})
    both = old.keys() & new.keys()
    return found | {"compared": len(both), "same": sum(old[place] == new[place] for place in both)}


def _by_row(verdicts: dict[Place, Verdict]) -> dict[Place, Verdict]:
    return _worst((place._replace(device="", backend=""), verdict) for place, verdict in verdicts.items())


def sort_of(was: Verdict | None, now: Verdict | None) -> str:
    """added, lost, fixed, broken or changed."""
    if was is None or now is None:
        return "added" if was is None else "lost"
    if was.bad == now.bad:
        return "changed"
    return "fixed" if was.bad else "broken"
