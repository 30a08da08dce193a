"""Campaigns: what was asked for, how far it is, and whether it goes on.

id = create(s, selection=…, rule=…, planned=…, targets=…, now_us=…)    # one job per case and target
campaigns(s) · newest(s, n) · open_campaigns(s) · running(s) · campaign_row(s, id)  # CampaignRow, with counts
put_first(s, id) · pause(s, id, now_us) · unpause(s, id) · cancel(s, id, now_us)
close_finished(s, now_us) -> ids      # closed when every job has its verdict, never reopened
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from db.cases import inputs_key, store_cases
from db.job import LARGEST_ID, PlannedCase, Target, add_targets
from db.second import keep_first
from db.session import Session, insert_new
from db.tables import LIVE, attempt, campaign, job
from db.tables import planned as planned_table
from kernels.errors import FarmError, UsageError
from kernels.evidence import Rule, Verdict

# Of a job without a verdict; named one by one, since an index has no place for "not done".
OPEN_STATES = ("waiting", "leased")
FEW = 100  # campaigns whose jobs are looked up one campaign at a time


@dataclass(frozen=True)
class CampaignRow:
    """A campaign and how far it is."""

    id: int
    selection: str  # JSON, as submitted
    rule: Rule
    priority: int
    created_us: int
    closed_us: int | None  # None while open
    waiting: int  # jobs nobody holds
    leased: int
    verdicts: tuple[tuple[Verdict, int], ...]  # of the jobs that are done, worst first
    paused_us: int | None = None  # None while its jobs are leased
    cancelled_us: int | None = None  # None unless nothing more of it is to run
    retry_of: int | None = None  # the campaign whose bad jobs these are
    pack: str = ""  # address of its kernels' catalog; empty for the farm's own
    bench: bool = False  # whether its jobs are timed
    twice: float = 0.0  # share of its cases that two boards of a class run

    @property
    def done(self) -> int:
        return sum(count for _, count in self.verdicts)

    @property
    def jobs(self) -> int:
        return self.waiting + self.leased + self.done

    @property
    def bad(self) -> int:
        """Jobs whose verdict makes a command exit with 3."""
        return sum(count for verdict, count in self.verdicts if verdict.bad)

    @property
    def is_open(self) -> bool:
        return self.closed_us is None

    @property
    def takes_targets(self) -> bool:
        """Whether a class that joins gets jobs of it: a repeat of single jobs has all that it will have."""
        return self.is_open and self.cancelled_us is None and self.retry_of is None


def create(
    s: Session,
    *,
    selection: str,
    rule: Rule,
    planned: Sequence[PlannedCase],
    targets: Sequence[Target],
    now_us: int,
    priority: int = 0,
    retry_of: int | None = None,
    pack: str = "",
    bench: bool = False,
    twice: float = 0.0,
) -> int:
    """Stores a selection, its cases and one waiting job per case and target; returns the campaign's id.

    `pack` is the address of the stored catalog that the kernels are in; empty for the farm's own. `twice` is
    the share of the cases that two boards of a class run, where it has two.
    """
    values = {"selection": selection, "rule": rule, "priority": priority, "created_us": now_us}
    values |= {"retry_of": retry_of, "pack": pack, "bench": bench, "twice": twice}
    inserting = sa.insert(campaign).values(**values)
    (campaign_id,) = s.execute(inserting).inserted_primary_key or (0,)
    store_cases(s, [item.case for item in planned])
    rows = [_planned_row(item, campaign_id, place) for place, item in enumerate(_neighbours(planned))]
    insert_new(s, planned_table, rows)
    add_targets(s, campaign_id, targets, now_us)
    return int(campaign_id)


def campaigns(s: Session) -> tuple[CampaignRow, ...]:
    """Every campaign, newest first."""
    return _campaigns(s, sa.true())


class Running(NamedTuple):
    """A campaign whose jobs are leased, without its counts, which take long where there are many jobs."""

    id: int
    selection: str  # JSON, as submitted
    created_us: int


def running(s: Session) -> tuple[Running, ...]:
    """The open campaigns that aren't paused."""
    query = sa.select(campaign.c.id, campaign.c.selection, campaign.c.created_us)
    query = query.where(campaign.c.closed_us.is_(None), campaign.c.paused_us.is_(None))
    return tuple(Running(*row) for row in s.execute(query))


class StillOpen(NamedTuple):
    """An open campaign as a board that joins sees it, without its counts."""

    id: int
    selection: str  # JSON, as submitted
    twice: float
    takes_targets: bool  # whether a class that joins gets jobs of it


STILL_OPEN = (
    sa.select(
        campaign.c.id,
        campaign.c.selection,
        campaign.c.twice,
        sa.and_(campaign.c.cancelled_us.is_(None), campaign.c.retry_of.is_(None)),
    )
    .where(campaign.c.closed_us.is_(None))
    .order_by(campaign.c.id.desc())
)
NEWEST_OPEN = sa.select(sa.func.max(campaign.c.id)).where(campaign.c.closed_us.is_(None))


def still_open(s: Session) -> tuple[StillOpen, ...]:
    """Campaigns that still owe a verdict, newest first."""
    return tuple(StillOpen(*row) for row in s.execute(STILL_OPEN))


def open_campaigns(s: Session) -> tuple[CampaignRow, ...]:
    """Campaigns that still owe a verdict, newest first: those that `farm resume` can go on with."""
    return _campaigns(s, campaign.c.closed_us.is_(None))


def newest(s: Session, closed: int) -> tuple[tuple[CampaignRow, ...], int]:
    """Every open campaign and the newest closed ones, newest first; and how many more there are."""
    last = sa.select(campaign.c.id).where(campaign.c.closed_us.is_not(None))
    last = last.order_by(campaign.c.id.desc()).limit(closed)
    rows = _campaigns(s, sa.or_(campaign.c.closed_us.is_(None), campaign.c.id.in_(last)))
    return rows, s.execute(sa.select(sa.func.count()).select_from(campaign)).scalar_one() - len(rows)


def newest_open(s: Session) -> int:
    """The id of the newest open campaign; 0 where every campaign has its verdicts."""
    return s.execute(NEWEST_OPEN).scalar() or 0


def campaign_row(s: Session, campaign_id: int) -> CampaignRow:
    """One campaign; UsageError names the ones there are."""
    for row in _campaigns(s, campaign.c.id == campaign_id) if campaign_id <= LARGEST_ID else ():
        return row
    known = s.execute(sa.select(sa.func.min(campaign.c.id), sa.func.max(campaign.c.id))).one()
    there = "there are none" if known[0] is None else f"there are {known[0]} to {known[1]}"
    raise UsageError(f"no campaign {campaign_id}; {there}")


def cancelled(s: Session) -> tuple[int, ...]:
    """The ids of the campaigns that were cancelled."""
    return tuple(s.execute(sa.select(campaign.c.id).where(campaign.c.cancelled_us.is_not(None))).scalars())


def put_first(s: Session, campaign_id: int) -> None:
    """Raises a campaign's priority over that of every other open one: its jobs are leased first."""
    others = sa.select(sa.func.max(campaign.c.priority))
    others = others.where(campaign.c.closed_us.is_(None), campaign.c.id != campaign_id)
    highest = s.execute(others).scalar()
    mine = sa.update(campaign).where(campaign.c.id == campaign_id)
    if highest is not None:
        s.execute(mine.where(campaign.c.priority <= highest).values(priority=highest + 1))


def pause(s: Session, campaign_id: int, now_us: int) -> bool:
    """Has nothing more of an open campaign leased; what is held goes on. False where it was paused."""
    _demand_open(s, campaign_id)
    mine = sa.update(campaign).where(campaign.c.id == campaign_id, campaign.c.paused_us.is_(None))
    return s.execute(mine.values(paused_us=now_us)).rowcount == 1


def reselect(s: Session, campaign_id: int, selection: str) -> None:
    """Stores another selection: what is asked of its boards may change, its cases don't."""
    s.execute(sa.update(campaign).where(campaign.c.id == campaign_id).values(selection=selection))


def unpause(s: Session, campaign_id: int) -> None:
    """Has a campaign's jobs leased again."""
    s.execute(sa.update(campaign).where(campaign.c.id == campaign_id).values(paused_us=None))


def cancel(s: Session, campaign_id: int, now_us: int) -> int:
    """Gives every job of an open campaign that nobody has started the verdict SKIP; returns how many.

    What runs ends by itself, and its line decides as ever; the campaign is closed with the last of them.
    """
    _demand_open(s, campaign_id)
    s.execute(sa.update(campaign).where(campaign.c.id == campaign_id).values(cancelled_us=now_us))
    mine = sa.select(job.c.id).where(job.c.campaign_id == campaign_id, job.c.state == "leased")
    unstarted = sa.update(attempt).where(attempt.c.job_id.in_(mine), attempt.c.state == "leased")
    s.execute(unstarted.values(state="returned", reason="its campaign was cancelled", ended_us=now_us))
    started = sa.select(attempt.c.job_id).where(sa.text(LIVE), attempt.c.state == "started")
    of_nobody = (
        job.c.campaign_id == campaign_id, job.c.state.in_(OPEN_STATES), job.c.id.not_in(started)
    )  # fmt: skip
    keep_first(s, sa.and_(*of_nobody), now_us)
    left = sa.update(job).where(*of_nobody)
    return s.execute(left.values(state="done", verdict=Verdict.SKIP.value, done_us=now_us)).rowcount


def _demand_open(s: Session, campaign_id: int) -> None:
    row = campaign_row(s, campaign_id)
    if not row.is_open or row.cancelled_us is not None:
        state = "cancelled" if row.cancelled_us is not None else "closed: all its jobs have verdicts"
        raise FarmError(f"campaign {campaign_id} is {state}")


OF_IT = job.c.campaign_id == campaign.c.id
FINISHED = sa.select(campaign.c.id).where(
    campaign.c.closed_us.is_(None),
    sa.or_(campaign.c.cancelled_us.is_not(None), sa.exists().where(OF_IT)),
    ~sa.exists().where(OF_IT, job.c.state.in_(OPEN_STATES)),
)


def close_finished(s: Session, now_us: int) -> tuple[int, ...]:
    """Closes every open campaign that has jobs and a verdict for each; returns their ids."""
    ids = tuple(s.execute(FINISHED).scalars())
    if ids:
        s.execute(sa.update(campaign).where(campaign.c.id.in_(ids)).values(closed_us=now_us))
    return ids


def _neighbours(planned: Sequence[PlannedCase]) -> list[PlannedCase]:
    """Cases with the same inputs side by side, in the order of each first: a worker makes the inputs once."""
    first: dict[str, int] = {}
    keys = [inputs_key(item.case) for item in planned]
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    return [planned[i] for i in sorted(range(len(keys)), key=lambda i: (first[keys[i]], i))]


def _planned_row(item: PlannedCase, campaign_id: int, position: int) -> dict[str, object]:
    return {
        "campaign_id": campaign_id,
        "case_id": item.case.id,
        "position": position,
        "repeats": item.repeats,
        "source_digest": item.source_digest,
        "inputs_digest": item.inputs_digest,
        "needs": item.needs.to_text(),
    }


def _campaigns(s: Session, where: sa.ColumnElement[bool]) -> tuple[CampaignRow, ...]:
    rows = s.execute(sa.select(campaign).where(where).order_by(campaign.c.id.desc())).all()
    groups = (job.c.campaign_id, job.c.state, job.c.verdict)
    counts = sa.select(*groups, sa.func.count()).group_by(*groups)
    if len(rows) <= FEW:  # else nearly all: they are counted in one go over the index
        counts = counts.where(job.c.campaign_id.in_([row.id for row in rows]))
    states: Counter[tuple[int, str]] = Counter()
    verdicts: Counter[tuple[int, str]] = Counter()
    for campaign_id, state, verdict, count in s.execute(counts):
        (verdicts if verdict else states)[campaign_id, verdict or state] += count
    return tuple(_campaign_row(row, states, verdicts) for row in rows)


def _campaign_row(
    row: sa.Row[tuple[object, ...]], states: Counter[tuple[int, str]], verdicts: Counter[tuple[int, str]]
) -> CampaignRow:
    found = tuple((verdict, verdicts[row.id, verdict]) for verdict in Verdict if verdicts[row.id, verdict])
    return CampaignRow(
        id=row.id,
        selection=row.selection,
        rule=Rule(row.rule),
        priority=row.priority,
        created_us=row.created_us,
        closed_us=row.closed_us,
        paused_us=row.paused_us,
        cancelled_us=row.cancelled_us,
        retry_of=row.retry_of,
        pack=row.pack,
        bench=row.bench,
        twice=row.twice,
        waiting=states[row.id, "waiting"],
        leased=states[row.id, "leased"],
        verdicts=found,
    )
