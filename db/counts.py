"""How much there is of what, for whoever looks every few seconds: answered from indexes alone.

counts(s) -> Counts
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Session
from db.tables import LIVE, attempt, campaign, device, exam, job
from kernels.model import Verdict


@dataclass(frozen=True)
class Counts:
    """One moment of a farm."""

    jobs: tuple[tuple[str, Verdict | None, int], ...]  # state, verdict of those that are done, how many
    open_campaigns: int
    live_attempts: int  # leased or started
    boards: int
    boards_aside: int


def counts(s: Session) -> Counts:
    """Jobs by state and verdict, open campaigns, live attempts, boards."""
    groups = (job.c.state, job.c.verdict)
    jobs = s.execute(sa.select(*groups, sa.func.count()).group_by(*groups).order_by(*groups))
    return Counts(
        tuple((state, Verdict(word) if word else None, count) for state, word, count in jobs),
        _count(s, campaign, campaign.c.closed_us.is_(None)),
        _count(s, attempt, sa.text(LIVE)),
        _count(s, device, sa.true()),
        _count(s, exam, exam.c.aside_us.is_not(None)),
    )


def _count(s: Session, table: sa.Table, where: sa.ColumnElement[bool] | sa.TextClause) -> int:
    return s.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar_one()
