"""Boards that proved themselves, boards that are set aside, and what becomes of what those reported.

note_exam(s, slug, passed, reason, now_us)            # at joining, and now and then after
set_aside(s, slug, reason, now_us) -> SetAside        # its lines since the last good exam are suspect
readmit(s, slug, now_us) · why_aside(s, slug) -> str  # empty for a board that may work
aside(s) -> slugs                                     # of those that may not
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from db.agreement import doubt
from db.attempt import reopen
from db.capability import fold_cells
from db.cell import CellKey
from db.session import Session, insert_new
from db.tables import CELL, attempt, campaign, evidence, exam, job
from kernels.errors import UsageError
from kernels.evidence import Verdict


@dataclass(frozen=True)
class SetAside:
    """What setting a board aside did."""

    suspect: int  # lines
    requeued: tuple[int, ...]  # job ids, of campaigns that are open


@dataclass(frozen=True)
class Standing:
    """Where a board stands with the farm."""

    device: str
    examined_us: int | None  # the last exam that it passed
    aside_us: int | None
    reason: str


def note_exam(s: Session, slug: str, passed: bool, reason: str, now_us: int) -> None:
    """Notes an exam's end; one that was passed is what later doubts reach back to."""
    _make_row(s, slug)
    if passed:
        s.execute(sa.update(exam).where(exam.c.device == slug).values(examined_us=now_us))
    else:
        set_aside(s, slug, reason, now_us)


def set_aside(s: Session, slug: str, reason: str, now_us: int) -> SetAside:
    """Gives a board no more jobs, doubts its lines since its last good exam, and has their jobs run again.

    Jobs of closed campaigns keep their verdicts: their cells say suspect.
    """
    _make_row(s, slug)
    since = s.execute(sa.select(exam.c.examined_us).where(exam.c.device == slug)).scalar() or 0
    s.execute(sa.update(exam).where(exam.c.device == slug).values(aside_us=now_us, reason=reason))
    doubted = sa.and_(evidence.c.device == slug, evidence.c.stored_us > since, ~evidence.c.suspect)
    columns = (evidence.c.evidence_id, *(evidence.c[name] for name in CELL))
    lines = s.execute(sa.select(*columns).where(doubted)).all()
    s.execute(sa.update(evidence).where(doubted).values(suspect=True))
    doubt(s, slug, since)
    fold_cells(s, {CellKey(*line[1:]) for line in lines})
    decided = (
        sa.select(job.c.id)
        .join(campaign, campaign.c.id == job.c.campaign_id)
        .join(evidence, evidence.c.evidence_id == job.c.evidence_id)
        .where(
            campaign.c.closed_us.is_(None),
            campaign.c.cancelled_us.is_(None),
            evidence.c.device == slug,
            evidence.c.suspect,
        )
    )
    again = tuple(s.execute(decided).scalars())
    reopen(s, again, avoid=slug)
    _forget_crashes(s, slug)
    return SetAside(len(lines), again)


def _forget_crashes(s: Session, slug: str) -> None:
    """A crash on a doubted board is none of the two that make one the kernel's."""
    says_crash = evidence.c.verdict == Verdict.CRASH.value
    crashed = sa.and_(says_crash, evidence.c.attempt_id == attempt.c.attempt_id)
    doubted = sa.select(attempt.c.job_id).where(crashed, evidence.c.device == slug, evidence.c.suspect)
    left = (
        sa.select(sa.func.count(sa.distinct(attempt.c.attempt_id)))
        .where(crashed, attempt.c.job_id == job.c.id, ~evidence.c.suspect)
        .scalar_subquery()
    )
    s.execute(sa.update(job).where(job.c.id.in_(doubted), job.c.state != "done").values(crashes=left))


def readmit(s: Session, slug: str, now_us: int) -> None:
    """Lets a board work again, after an exam; what it reported before stays suspect."""
    if not why_aside(s, slug):
        raise UsageError(f"board {slug!r} isn't set aside; those that are: {', '.join(aside(s)) or 'none'}")
    values = {"aside_us": None, "reason": "", "examined_us": now_us}
    s.execute(sa.update(exam).where(exam.c.device == slug).values(**values))


def why_aside(s: Session, slug: str) -> str:
    """Why a board is set aside; empty if it may work."""
    query = sa.select(exam.c.reason).where(exam.c.device == slug, exam.c.aside_us.is_not(None))
    return s.execute(query).scalar() or ""


def aside(s: Session) -> tuple[str, ...]:
    """The boards that are set aside, by name."""
    query = sa.select(exam.c.device).where(exam.c.aside_us.is_not(None)).order_by(exam.c.device)
    return tuple(s.execute(query).scalars())


def standings(s: Session) -> tuple[Standing, ...]:
    """Every board that was examined or set aside."""
    columns = [exam.c[name] for name in Standing.__dataclass_fields__]
    return tuple(Standing(*row) for row in s.execute(sa.select(*columns).order_by(exam.c.device)))


def _make_row(s: Session, slug: str) -> None:
    insert_new(s, exam, [{"device": slug, "reason": ""}])
