"""Campaigns: what was asked for, the jobs made from it, and how far they are.

id = create(s, selection=…, rule=…, planned=…, targets=…, now_us=…)    # one job per case and target
add_targets(s, campaign_id, targets, now_us) -> jobs made    # a class that joins an open campaign
campaigns(s) · open_campaigns(s) · campaign_row(s, id)      # CampaignRow, with counts by state and verdict
jobs_of(s, campaign_id) · job_row(s, job_id)                # JobRow
close_finished(s, now_us) -> ids      # closed when every job has its verdict, never reopened
known_inputs(s, keys) -> {inputs_key: inputs_digest} · remember_inputs(s, {inputs_key: inputs_digest})
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import campaign, cases, fixture, job
from db.tables import planned as planned_table
from kernels import codec
from kernels.errors import UsageError
from kernels.model import Case, Rule, Verdict


@dataclass(frozen=True)
class PlannedCase:
    """A case of a campaign, and what its workers will be checked by."""

    case: Case
    repeats: int
    source_digest: str
    inputs_digest: str  # empty where nobody has made the inputs yet


LARGEST_ID = 2**63 - 1  # of a row; SQLite takes no larger number


@dataclass(frozen=True)
class Target:
    """Where every case of a campaign runs once."""

    backend: str
    device_class: str
    per_source: bool = False  # one case of every source is enough: nothing runs there


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


@dataclass(frozen=True)
class JobRow:
    """One case on one backend and device class, in one campaign."""

    id: int
    campaign_id: int
    case: Case
    case_id: str
    backend: str
    device_class: str
    state: str  # waiting, leased or done
    losses: int  # started attempts whose worker vanished
    verdict: Verdict | None  # None until done; by the campaign's own rule where it has one
    evidence_id: str | None  # of the line that decided
    done_us: int | None
    source_digest: str
    inputs_digest: str


def create(
    s: Session,
    *,
    selection: str,
    rule: Rule,
    planned: Sequence[PlannedCase],
    targets: Sequence[Target],
    now_us: int,
    priority: int = 0,
) -> int:
    """Stores a selection, its cases and one waiting job per case and target; returns the campaign's id."""
    values = {"selection": selection, "rule": rule, "priority": priority, "created_us": now_us}
    (campaign_id,) = s.execute(sa.insert(campaign).values(**values)).inserted_primary_key or (0,)
    store_cases(s, [item.case for item in planned])
    rows = [_planned_row(item, campaign_id, place) for place, item in enumerate(_neighbours(planned))]
    insert_new(s, planned_table, rows)
    add_targets(s, campaign_id, targets, now_us)
    return int(campaign_id)


def add_targets(s: Session, campaign_id: int, targets: Iterable[Target], now_us: int) -> int:
    """Makes the jobs of an open campaign that these targets lack; returns how many were new."""
    query = sa.select(campaign.c.closed_us).where(campaign.c.id == campaign_id)
    if s.execute(query).scalar_one() is not None:
        raise UsageError(
            f"campaign {campaign_id} is closed and takes no more jobs; submit its selection again"
        )
    before = _job_count(s, campaign_id)
    rows = s.execute(
        sa.select(planned_table)
        .where(planned_table.c.campaign_id == campaign_id)
        .order_by(planned_table.c.position)
    ).all()
    one_each = representatives(rows)
    wanted = sorted(set(targets), key=lambda target: (target.device_class, target.backend))
    jobs = [
        _job_values(campaign_id, row.case_id, target)
        for row in rows
        for target in wanted
        if not target.per_source or row.case_id in one_each
    ]
    insert_new(s, job, jobs)
    return _job_count(s, campaign_id) - before


def representatives(rows: Iterable[Any]) -> set[str]:
    """The id of every source's first planned case; one with inputs goes first: a refused case has none."""
    chosen: dict[str, Any] = {}
    for row in rows:
        held = chosen.setdefault(row.source_digest, row)
        if row.inputs_digest and not held.inputs_digest:
            chosen[row.source_digest] = row
    return {row.case_id for row in chosen.values()}


def campaigns(s: Session) -> tuple[CampaignRow, ...]:
    """Every campaign, newest first."""
    return _campaigns(s, sa.true())


def open_campaigns(s: Session) -> tuple[CampaignRow, ...]:
    """Campaigns that still owe a verdict, newest first: those that `farm resume` can go on with."""
    return _campaigns(s, campaign.c.closed_us.is_(None))


def newest_open(s: Session) -> int:
    """The id of the newest open campaign; 0 where every campaign has its verdicts."""
    return (
        s.execute(sa.select(sa.func.max(campaign.c.id)).where(campaign.c.closed_us.is_(None))).scalar() or 0
    )


def campaign_row(s: Session, campaign_id: int) -> CampaignRow:
    """One campaign; UsageError names the ones there are."""
    for row in _campaigns(s, campaign.c.id == campaign_id) if campaign_id <= LARGEST_ID else ():
        return row
    known = s.execute(sa.select(sa.func.min(campaign.c.id), sa.func.max(campaign.c.id))).one()
    there = "there are none" if known[0] is None else f"there are {known[0]} to {known[1]}"
    raise UsageError(f"no campaign {campaign_id}; {there}")


def jobs_of(s: Session, campaign_id: int) -> tuple[JobRow, ...]:
    """The jobs of a campaign in the order in which they are leased."""
    return _jobs(s, job.c.campaign_id == campaign_id)


def targets_of(s: Session, campaign_id: int) -> tuple[Target, ...]:
    """Where a campaign has jobs."""
    query = sa.select(job.c.backend, job.c.device_class).where(job.c.campaign_id == campaign_id).distinct()
    return tuple(Target(*row) for row in s.execute(query.order_by(job.c.device_class, job.c.backend)))


def job_row(s: Session, job_id: int) -> JobRow:
    """One job; UsageError where there is none."""
    for row in _jobs(s, job.c.id == job_id) if job_id <= LARGEST_ID else ():
        return row
    raise UsageError(f"no job {job_id} in this database; farm status lists the campaigns")


def put_first(s: Session, campaign_id: int) -> None:
    """Raises a campaign's priority over that of every other open one: its jobs are leased first."""
    others = sa.select(sa.func.max(campaign.c.priority))
    others = others.where(campaign.c.closed_us.is_(None), campaign.c.id != campaign_id)
    highest = s.execute(others).scalar()
    mine = sa.update(campaign).where(campaign.c.id == campaign_id)
    if highest is not None:
        s.execute(mine.where(campaign.c.priority <= highest).values(priority=highest + 1))


def close_finished(s: Session, now_us: int) -> tuple[int, ...]:
    """Closes every open campaign that has jobs and a verdict for each; returns their ids."""
    mine = job.c.campaign_id == campaign.c.id
    finished = sa.select(campaign.c.id).where(
        campaign.c.closed_us.is_(None),
        sa.exists().where(mine),
        ~sa.exists().where(mine, job.c.state != "done"),
    )
    ids = tuple(s.execute(finished).scalars())
    s.execute(sa.update(campaign).where(campaign.c.id.in_(ids)).values(closed_us=now_us))
    return ids


def known_inputs(s: Session, keys: Iterable[str]) -> dict[str, str]:
    """The inputs digests that earlier campaigns found, by inputs key."""
    wanted = set(keys)
    query = sa.select(fixture.c.inputs_key, fixture.c.inputs_digest)
    return {key: digest for key, digest in s.execute(query) if key in wanted}


def remember_inputs(s: Session, digests: Mapping[str, str]) -> None:
    """Keeps digests so that the next campaign need not make the inputs to know them."""
    insert_new(s, fixture, [{"inputs_key": key, "inputs_digest": value} for key, value in digests.items()])


def store_cases(s: Session, wanted: Iterable[Case]) -> None:
    """Stores cases by their id; a case that is there stays as it is."""
    rows = {case: {"inputs_key": inputs_key(case), "case_json": codec.canonical(case)} for case in wanted}
    insert_new(s, cases, [row | {"case_id": case_id(case)} for case, row in rows.items()])


def case_by_id(s: Session, start: str) -> Case:
    """The stored case whose id starts with these hex digits; UsageError where none or several do."""
    query = sa.select(cases.c.case_json).where(cases.c.case_id.startswith(start, autoescape=True)).limit(2)
    found = s.execute(query).scalars().all()
    if len(found) != 1:
        raise UsageError(
            f"{'no case' if not found else 'several cases'} with an id that starts with {start!r} here"
        )
    return case_of(found[0])


@lru_cache(maxsize=16384)
def case_id(case: Case) -> str:
    """The case's id; worked out once per process, since it is asked for with every line."""
    return case.id


@lru_cache(maxsize=16384)
def inputs_key(case: Case) -> str:
    """The case's inputs key; worked out once per process."""
    return case.inputs_key


@lru_cache(maxsize=16384)
def case_of(case_json: str) -> Case:
    """The case of a stored text; campaigns repeat the same few thousand."""
    return codec.decode(Case, json.loads(case_json))


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
        "case_id": case_id(item.case),
        "position": position,
        "repeats": item.repeats,
        "source_digest": item.source_digest,
        "inputs_digest": item.inputs_digest,
    }


def _job_values(campaign_id: int, case: str, target: Target) -> dict[str, object]:
    place = {"backend": target.backend, "device_class": target.device_class}
    return {"campaign_id": campaign_id, "case_id": case, "state": "waiting", "losses": 0} | place


def _job_count(s: Session, campaign_id: int) -> int:
    query = sa.select(sa.func.count()).select_from(job).where(job.c.campaign_id == campaign_id)
    return s.execute(query).scalar_one()


def _campaigns(s: Session, where: sa.ColumnElement[bool]) -> tuple[CampaignRow, ...]:
    counts = (
        sa.select(job.c.campaign_id, job.c.state, job.c.verdict, sa.func.count())
        .join(campaign, campaign.c.id == job.c.campaign_id)
        .where(where)
        .group_by(job.c.campaign_id, job.c.state, job.c.verdict)
    )
    states: Counter[tuple[int, str]] = Counter()
    verdicts: Counter[tuple[int, str]] = Counter()
    for campaign_id, state, verdict, count in s.execute(counts):
        (verdicts if verdict else states)[campaign_id, verdict or state] += count
    rows = s.execute(sa.select(campaign).where(where).order_by(campaign.c.id.desc()))
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
        waiting=states[row.id, "waiting"],
        leased=states[row.id, "leased"],
        verdicts=found,
    )


def _jobs(s: Session, where: sa.ColumnElement[bool]) -> tuple[JobRow, ...]:
    query = (
        sa.select(job, planned_table.c.source_digest, planned_table.c.inputs_digest, cases.c.case_json)
        .join_from(job, planned_table)
        .join(cases, cases.c.case_id == job.c.case_id)
        .where(where)
        .order_by(job.c.id)
    )
    return tuple(_job_row(dict(row._mapping)) for row in s.execute(query))


def _job_row(values: dict[str, object]) -> JobRow:
    case = case_of(str(values.pop("case_json")))
    verdict = values.pop("verdict")
    return JobRow(case=case, verdict=Verdict(verdict) if verdict else None, **values)  # type: ignore[arg-type]
