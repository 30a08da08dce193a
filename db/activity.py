"""What is going on: what boards hold at this moment, and what they have just ended.

held(s) -> tuple[Held, ...]                     # live attempts, the longest first
ended(s, since_us) -> tuple[Ended, ...]         # attempts that brought a line, by campaign and board
places(s, campaign_id) -> tuple[PlaceNow, ...]  # how far a campaign is, by class and backend
cells_version(s) · work_version(s)              # differ after every change of what is known, of what goes on
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from db.cases import case_of
from db.session import Session
from db.tables import LIVE, attempt, bug, campaign, capability, cases, device, exam, job, pack
from kernels.evidence import Verdict
from kernels.model import Case

Version = tuple[object, ...]


@dataclass(frozen=True)
class Held:
    """A job that a board's worker holds."""

    campaign_id: int
    job_id: int
    device: str  # slug
    backend: str
    case: Case
    leased_us: int
    started_us: int | None  # None where it waits for its turn


@dataclass(frozen=True)
class Ended:
    """How many attempts at a campaign's jobs a board ended, and when the first and the last of them."""

    campaign_id: int
    device: str
    attempts: int
    first_us: int
    last_us: int


def held(s: Session, most: int = 1000) -> tuple[Held, ...]:
    """What is leased or started now; those that run come first, the longest of them at the top."""
    query = (
        sa.select(
            job.c.campaign_id, job.c.id, attempt.c.device, job.c.backend, cases.c.case_json,
            attempt.c.leased_us, attempt.c.started_us,
        )
        .join_from(attempt, job)
        .join(cases, cases.c.case_id == job.c.case_id)
        .where(sa.text(LIVE))
        .order_by(attempt.c.started_us.is_(None), attempt.c.started_us, attempt.c.leased_us, job.c.id)
        .limit(most)
    )  # fmt: skip
    return tuple(Held(*row[:4], case_of(row[4]), *row[5:]) for row in s.execute(query))


def ended(s: Session, since_us: int) -> tuple[Ended, ...]:
    """Attempts that ended with a line since then."""
    when = attempt.c.ended_us
    query = (
        sa.select(job.c.campaign_id, attempt.c.device, sa.func.count(), sa.func.min(when), sa.func.max(when))
        .join_from(attempt, job)
        .where(when >= since_us, attempt.c.state == "done")
        .group_by(job.c.campaign_id, attempt.c.device)
        .order_by(job.c.campaign_id, attempt.c.device)
    )
    return tuple(Ended(*row) for row in s.execute(query))


@dataclass(frozen=True)
class PlaceNow:
    """How far a campaign is on a device class and backend."""

    device_class: str
    backend: str
    waiting: int
    leased: int
    verdicts: tuple[tuple[Verdict, int], ...]  # worst first


def places(s: Session, campaign_id: int) -> tuple[PlaceNow, ...]:
    """Where a campaign has jobs, by class and backend."""
    columns = job.c.device_class, job.c.backend, job.c.state, job.c.verdict
    query = sa.select(*columns, sa.func.count()).where(job.c.campaign_id == campaign_id).group_by(*columns)
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for device_class, backend, state, verdict, count in s.execute(query):
        counts[device_class, backend][verdict or state] += count
    return tuple(
        PlaceNow(*place, of["waiting"], of["leased"], tuple((one, of[one]) for one in Verdict if of[one]))
        for place, of in sorted(counts.items())
    )


def cells_version(s: Session) -> Version:
    """Differs after every change that a matrix shows: cells, boards, those set aside, catalogs, bugs."""
    count, newest, total = sa.func.count, sa.func.max, sa.func.sum
    asked = (
        (count(), newest(capability.c.last_run_us), total(capability.c.cases), total(capability.c.skipped),
         total(capability.c.positions), total(sa.func.length(capability.c.reason))),
        (count(), newest(device.c.last_seen_us)),
        (count(exam.c.aside_us), newest(exam.c.aside_us)),
        (count(), newest(pack.c.stored_us)),
        (count(), newest(bug.c.id)),
    )  # fmt: skip
    tables = (capability, device, exam, pack, bug)
    found: list[object] = []
    for columns, table in zip(asked, tables, strict=True):
        found += s.execute(sa.select(*columns).select_from(table)).one()
    return tuple(found)


def work_version(s: Session) -> Version:
    """Differs after every step of a campaign."""
    states = sa.select(job.c.state, job.c.verdict, sa.func.count())
    states = states.join(campaign, campaign.c.id == job.c.campaign_id).where(campaign.c.closed_us.is_(None))
    states = states.group_by(job.c.state, job.c.verdict).order_by(job.c.state, job.c.verdict)
    live = sa.select(sa.func.count(), sa.func.count(attempt.c.started_us)).where(sa.text(LIVE))
    marks = (sa.func.count(campaign.c[name]) for name in ("id", "closed_us", "paused_us", "cancelled_us"))
    boards = sa.select(sa.func.count(), sa.func.max(device.c.first_seen_us))
    rows = (s.execute(query).one() for query in (live, sa.select(*marks), boards))
    return (*map(tuple, s.execute(states).all()), *(value for row in rows for value in row))
