"""A share of a campaign's cases runs on two boards of a class: what passed on one waits again, for another.

is_chosen(case_id, share) -> bool                 # the same cases whoever asks
ask(s, passed) -> job ids                         # that passed and now wait for a second board
keep_first(s, which, now_us) -> job ids           # a second look that told nothing: the first line decides
withdraw(s, can_look, now_us) -> int              # ends looks that nobody at work could do; how many are left

The second board's line decides, unless it says nothing about the kernel. A job keeps its one verdict, and the
line of the first board stays evidence. Which board the second may not be is a need of the job's target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from db.attempt import decide, reopen, set_jobs
from db.needs import Needs, needs_of
from db.session import Session, insert_new
from db.tables import LIVE, attempt, campaign, evidence, job, target
from kernels.evidence import Verdict

PASSED = (
    sa.select(job.c.id.label("job_id"), job.c.case_id, evidence.c.device, campaign.c.twice, *target.c)
    .join_from(job, target)
    .join(campaign, campaign.c.id == job.c.campaign_id)
    .join(evidence, evidence.c.evidence_id == job.c.evidence_id)
    .where(
        job.c.id.in_(sa.bindparam("ids", expanding=True)),
        job.c.verdict == Verdict.PASS.value,
        campaign.c.twice > 0,
        campaign.c.cancelled_us.is_(None),
        campaign.c.closed_us.is_(None),
        ~sa.exists().where(attempt.c.job_id == job.c.id, sa.text(LIVE)),
    )
)
IS_SECOND = target.c.needs.like('%"other_than":"_%')


def is_chosen(case_id: str, share: float) -> bool:
    """Whether a case is of the share: its id is a digest, so that any share of ids is a share of cases."""
    return int(case_id[:8], 16) < share * 2**32


def ask(s: Session, passed: Iterable[int]) -> tuple[int, ...]:
    """Has those of the jobs that are of their campaign's share wait for another board than the first."""
    again: defaultdict[int, list[int]] = defaultdict(list)
    for row in s.execute(PASSED, {"ids": list(passed)}).all():
        needs = needs_of(row.needs)
        if not needs.other_than and is_chosen(row.case_id, row.twice):
            again[_target_like(s, row, replace(needs, other_than=row.device))].append(row.job_id)
    for target_id, ids in again.items():
        reopen(s, ids)
        set_jobs(s, ids, target_id=target_id)
    return tuple(job_id for ids in again.values() for job_id in ids)


def _target_like(s: Session, row: Any, needs: Needs) -> int:
    """The id of a target that differs in needs alone; made where it isn't there."""
    named = {"campaign_id": row.campaign_id, "backend": row.backend, "device_class": row.device_class}
    named["needs"] = needs.to_text()
    insert_new(s, target, [named | {"made_us": row.made_us}])
    where = [target.c[name] == value for name, value in named.items()]
    return int(s.execute(sa.select(target.c.id).where(*where)).scalar_one())


def keep_first(s: Session, which: sa.ColumnElement[bool], now_us: int) -> set[int]:
    """Gives second looks among the jobs the verdict of their first line, where that isn't suspect by now."""
    said = sa.func.coalesce(evidence.c.rule_verdict, evidence.c.verdict)
    query = (
        sa.select(job.c.id, evidence.c.evidence_id)
        .join_from(job, target)
        .join(attempt, attempt.c.job_id == job.c.id)
        .join(evidence, evidence.c.attempt_id == attempt.c.attempt_id)
        .where(which, IS_SECOND, evidence.c.folded, ~evidence.c.suspect, said == Verdict.PASS.value)
        .order_by(evidence.c.finished_us, evidence.c.evidence_id)
    )
    first = {row.id: row.evidence_id for row in s.execute(query)}
    decide(s, [(job_id, Verdict.PASS, line) for job_id, line in first.items()], now_us)
    return set(first)


def withdraw(s: Session, can_look: Callable[[Any], bool], now_us: int) -> int:
    """Ends the looks for which no board is at work, as `can_look` says of a target; how many are left.

    Where the first line is suspect any board may run the job.
    """
    query = (
        sa.select(target, job.c.id.label("job_id"), job.c.state)
        .join_from(target, job, job.c.target_id == target.c.id)
        .join(campaign, campaign.c.id == target.c.campaign_id)
        .where(IS_SECOND, campaign.c.closed_us.is_(None), campaign.c.paused_us.is_(None))
        .where(job.c.state != "done")
    )
    rows = s.execute(query).all()
    targets = {row.id: row for row in rows if not can_look(row)}
    waiting = sa.and_(job.c.target_id.in_(list(targets)), job.c.state == "waiting")
    kept = keep_first(s, waiting, now_us)
    gone = [row for row in rows if row.id in targets and row.state == "waiting"]
    for row in gone:
        if row.job_id not in kept:
            plain = _target_like(s, row, replace(needs_of(row.needs), other_than=""))
            set_jobs(s, [row.job_id], target_id=plain)
    return len(rows) - len(gone)
