"""A job's whole story, in the order in which it happened: made, leased, lost, answered, decided.

story(s, job_id) -> Story
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from db.job import JobRow, job_row
from db.session import Session
from db.tables import CELL, attempt, campaign, evidence, exam, job, target
from kernels.evidence import Verdict

# Every kind of event; what happens in one transaction has one time and is told in this order.
EVENTS = (
    "submitted",
    "made",
    "exam passed",
    "leased",
    "started",
    "returned",
    "missed",
    "line",
    "decided",
    "set aside",
    "paused",
    "cancelled",
    "closed",
    "retried",
)
LINE = tuple(evidence.c[name] for name in (
    "evidence_id", "attempt_id", *CELL, "verdict", "rule_verdict", "reason", "started_us", "finished_us",
    "stored_us", "origin", "trust", "suspect", "folded", "copies",
))  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One thing that happened to a job, by the coordinator's clock."""

    at_us: int
    event: str  # one of EVENTS
    attempt: int = 0  # which of the job's, from 1; 0 where it is about none
    lease: str = ""  # the attempt's id
    worker: str = ""
    device: str = ""  # slug
    verdict: Verdict | None = None
    evidence_id: str = ""
    copies: int = 0  # how often the line came
    late: bool = False  # it came behind the verdict
    cell: str = ""  # that the line is folded into; empty for none
    about: str = ""  # reason, or what else there is to say


@dataclass(frozen=True)
class Story:
    """A job and what happened to it, oldest first."""

    job: JobRow
    events: tuple[Event, ...]


def story(s: Session, job_id: int) -> Story:
    """What happened to a job; UsageError where there is none."""
    mine = job_row(s, job_id)
    attempts = s.execute(
        sa.select(attempt).where(attempt.c.job_id == job_id).order_by(attempt.c.leased_us, attempt.c.ended_us)
    ).all()
    number = {row.attempt_id: place for place, row in enumerate(attempts, start=1)}
    events = [*_campaign(s, mine), *_exams(s, {row.device for row in attempts})]
    for row in attempts:
        events += _attempt(row, number[row.attempt_id])
    events += _lines(s, mine, number)
    events += _decision(mine)
    return Story(mine, tuple(sorted(events, key=_place)))


def _place(one: Event) -> tuple[int, int, int]:
    return one.at_us, EVENTS.index(one.event), one.attempt


def _campaign(s: Session, mine: JobRow) -> Iterator[Event]:
    """What people did to the campaign, and when the job was made of it."""
    row = s.execute(sa.select(campaign).where(campaign.c.id == mine.campaign_id)).one()
    again = f", a retry of campaign {row.retry_of}" if row.retry_of else ""
    yield Event(row.created_us, "submitted", about=f"campaign {row.id}{again}, priority {row.priority}")
    query = sa.select(target.c.made_us).join(job, job.c.target_id == target.c.id).where(job.c.id == mine.id)
    made_us = s.execute(query).scalar()
    where = f"for {mine.device_class}/{mine.backend}"
    unknown = "" if made_us else ", then or later"
    yield Event(made_us or row.created_us, "made", about=where + unknown)
    for name in ("paused", "cancelled", "closed"):
        if (at_us := getattr(row, f"{name}_us")) is not None:
            yield Event(at_us, name, about=f"campaign {row.id}")
    for at_us, campaign_id, job_id in _retries(s, mine):
        yield Event(at_us, "retried", about=f"as job {job_id} of campaign {campaign_id}")


def _retries(s: Session, mine: JobRow) -> Sequence[Any]:
    """The same case, backend and class in campaigns that repeat this one's bad jobs."""
    return s.execute(
        sa.select(campaign.c.created_us, campaign.c.id, job.c.id)
        .join(job, job.c.campaign_id == campaign.c.id)
        .where(
            campaign.c.retry_of == mine.campaign_id,
            job.c.case_id == mine.case_id,
            job.c.backend == mine.backend,
            job.c.device_class == mine.device_class,
        )
    ).all()


def _exams(s: Session, slugs: set[str]) -> Iterator[Event]:
    """The last exam that each board passed, and why one is set aside; what was before isn't kept."""
    for row in s.execute(sa.select(exam).where(exam.c.device.in_(slugs))):
        if row.examined_us is not None:
            yield Event(row.examined_us, "exam passed", device=row.device, about="its last one")
        if row.aside_us is not None:
            yield Event(row.aside_us, "set aside", device=row.device, about=row.reason)


def _attempt(row: Any, number: int) -> Iterator[Event]:
    made = Event(row.leased_us, "leased", number, row.attempt_id, row.worker_id, row.device)
    yield replace(made, about=f"epoch {row.epoch}")
    if row.started_us is not None:
        yield replace(made, at_us=row.started_us, event="started")
    if row.ended_us is not None and row.state in ENDED:
        yield replace(made, at_us=row.ended_us, event=ENDED[row.state], about=row.reason)


ENDED = {"returned": "returned", "MISS": "missed"}  # of an attempt that is done, its line tells


def _lines(s: Session, mine: JobRow, number: dict[str, int]) -> Iterator[Event]:
    """Every line of the job's attempts, and the one without an attempt that decided it."""
    of_attempts = sa.select(attempt.c.attempt_id).where(attempt.c.job_id == mine.id)
    wanted: sa.ColumnElement[bool] = evidence.c.attempt_id.in_(of_attempts)
    if mine.evidence_id:
        wanted = sa.or_(wanted, evidence.c.evidence_id == mine.evidence_id)
    for row in s.execute(sa.select(*LINE).where(wanted)):
        decided = row.evidence_id == mine.evidence_id
        late = mine.done_us is not None and row.stored_us > mine.done_us
        yield Event(
            row.stored_us,
            "line",
            number.get(row.attempt_id, 0),
            row.attempt_id or "",
            device=row.device,
            verdict=Verdict(row.rule_verdict or row.verdict),
            evidence_id=row.evidence_id,
            copies=row.copies,
            late=late,
            cell="/".join(getattr(row, name) for name in CELL[:-1]) if row.folded else "",
            about="; ".join(_remarks(row, decided, late)),
        )


def _remarks(row: Any, decided: bool, late: bool) -> Iterator[str]:
    if row.reason:
        yield row.reason
    if row.origin == "worker":
        yield f"ran for {(row.finished_us - row.started_us) / 1000:,.1f} ms"
    yield f"by the {row.origin}, {row.trust}"
    if row.copies > 1:
        yield f"it came {row.copies} times"
    if row.suspect:
        yield "suspect: its board was set aside"
    if late:
        yield "late: the job had its verdict"
    elif not decided and row.verdict == Verdict.CRASH.value:
        yield "a crash counts when it happens again"


def _decision(mine: JobRow) -> Iterator[Event]:
    if mine.done_us is not None and mine.verdict is not None:
        about = "" if mine.evidence_id else "without a line: its campaign was cancelled"
        yield Event(
            mine.done_us, "decided", verdict=mine.verdict, evidence_id=mine.evidence_id or "", about=about
        )
