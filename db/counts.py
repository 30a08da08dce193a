"""How much there is of what, for whoever looks every few seconds: answered from indexes alone.

counts(s) -> Counts
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Session
from db.tables import LIVE, attempt, campaign, device, exam, job
from kernels.evidence import Verdict


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
    # By campaign, too, as the index has them: it is read in one go then, and nothing is sorted.
    groups = (job.c.campaign_id, job.c.state, job.c.verdict)
    jobs: Counter[tuple[str, str]] = Counter()
    for _, state, word, count in s.execute(sa.select(*groups, sa.func.count()).group_by(*groups)):
        jobs[state, word or ""] += count
    return Counts(
        tuple((state, Verdict(word) if word else None, jobs[state, word]) for state, word in sorted(jobs)),
        _count(s, campaign, campaign.c.closed_us.is_(None)),
        _count(s, attempt, sa.text(LIVE)),
        _count(s, device, sa.true()),
        _count(s, exam, exam.c.aside_us.is_not(None)),
    )


def _count(s: Session, table: sa.Table, where: sa.ColumnElement[bool] | sa.TextClause) -> int:
    return s.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar_one()
