"""Attempts and what their ends do to their jobs: the statements that queue, loss and outcome share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from db.bulk import set_rows, update_rows
from db.session import Session
from db.tables import LIVE, attempt, campaign, evidence, job, planned
from kernels.evidence import Verdict

LIVE_STATES = ("leased", "started")

ATTEMPTS = (
    sa.select(
        attempt,
        job.c.case_id,
        job.c.backend,
        job.c.losses,
        job.c.crashes,
        job.c.state.label("job_state"),
        planned.c.source_digest,
        planned.c.inputs_digest,
        planned.c.repeats,
    )
    .join_from(attempt, job)
    .join(planned, sa.and_(planned.c.campaign_id == job.c.campaign_id, planned.c.case_id == job.c.case_id))
)
NAMED = ATTEMPTS.where(attempt.c.attempt_id.in_(sa.bindparam("ids", expanding=True)))


def live_rows(s: Session, where: sa.ColumnElement[bool]) -> Sequence[Any]:
    """Live attempts, as `attempt_rows`."""
    return attempt_rows(s, sa.and_(where, sa.text(LIVE)))


def attempt_rows(s: Session, where: sa.ColumnElement[bool]) -> Sequence[Any]:
    """Attempts with their job and what it was planned with."""
    return s.execute(ATTEMPTS.where(where)).all()


def attempts_named(s: Session, attempt_ids: Iterable[str]) -> Sequence[Any]:
    """Attempts by their ids, as `attempt_rows`."""
    return s.execute(NAMED, {"ids": list(attempt_ids)}).all()


def end_attempts(s: Session, rows: Sequence[Any], state: str, reason: str, now_us: int) -> None:
    ids = [row.attempt_id for row in rows]
    set_rows(s, attempt, "attempt_id", ids, state=state, reason=reason, ended_us=now_us)


def requeue(s: Session, rows: Sequence[Any], now_us: int, avoid: bool = False) -> tuple[int, ...]:
    """Makes the jobs of ended attempts wait again, elsewhere if `avoid`; returns their ids.

    In a campaign that was cancelled meanwhile nobody waits: there they are done, SKIP.
    """
    ids = tuple(row.job_id for row in rows)
    if not ids:
        return ids
    if avoid:
        update_rows(s, job, ("id",), [{"id": row.job_id, "avoid": row.device} for row in rows])
    set_jobs(s, ids, state="waiting")
    cancelled = sa.select(campaign.c.id).where(campaign.c.cancelled_us.is_not(None))
    over = sa.update(job).where(job.c.id.in_(ids), job.c.campaign_id.in_(cancelled))
    s.execute(over.values(state="done", verdict=Verdict.SKIP.value, done_us=now_us))
    return ids


def set_jobs(s: Session, ids: Sequence[int], **values: object) -> None:
    set_rows(s, job, "id", ids, **values)


def reopen(s: Session, ids: Sequence[int], **values: object) -> None:
    """Has decided jobs wait again, or for the attempt that is still at work on one.

    The attempts that decided them have spoken, whatever became of them.
    """
    if not ids:
        return
    lines = sa.select(job.c.evidence_id).where(job.c.id.in_(ids))
    spoke = sa.select(evidence.c.attempt_id).where(
        evidence.c.evidence_id.in_(lines), evidence.c.attempt_id.is_not(None)
    )
    s.execute(sa.update(attempt).where(attempt.c.attempt_id.in_(spoke)).values(state="done"))
    set_jobs(s, ids, state="waiting", verdict=None, evidence_id=None, done_us=None, **values)
    held = sa.select(attempt.c.job_id).where(sa.text(LIVE), attempt.c.job_id.in_(ids))
    s.execute(sa.update(job).where(job.c.id.in_(held)).values(state="leased"))


def decide(s: Session, decisions: Sequence[tuple[int, Verdict, str]], now_us: int) -> None:
    """Gives jobs the verdict of the line that decided them: (job id, verdict, evidence id)."""
    done = {"state": "done", "done_us": now_us}
    rows = [
        {"id": job_id, "verdict": verdict.value, "evidence_id": line} | done
        for job_id, verdict, line in decisions
    ]
    update_rows(s, job, ("id",), rows)
