"""Jobs: one case on one backend and device class in one campaign; made here, leased and decided by the queue.

add_targets(s, campaign_id, targets, now_us) -> jobs made    # a class that joins an open campaign
add_jobs(s, campaign_id, [(case_id, target), …], now_us)     # these and no others
jobs_of(s, campaign_id) · job_row(s, job_id)                 # JobRow
targets_of(s, campaign_id)                                   # where a campaign has jobs
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from db.cases import case_of
from db.device import see
from db.evidence import Entry, append
from db.needs import NOTHING, Needs, needs_of, offer_of, unmet_by_class
from db.own_line import About, own_line
from db.session import Session, insert_new
from db.tables import campaign, cases, job
from db.tables import planned as planned_table
from db.tables import target as target_table
from kernels.errors import UsageError
from kernels.evidence import Verdict
from kernels.model import Case, Device

LARGEST_ID = 2**63 - 1  # of a row; SQLite takes no larger number


@dataclass(frozen=True)
class PlannedCase:
    """A case of a campaign, and what its workers will be checked by."""

    case: Case
    repeats: int
    source_digest: str
    inputs_digest: str  # empty where nobody has made the inputs yet
    needs: Needs = NOTHING


@dataclass(frozen=True)
class Target:
    """Where every case of a campaign runs once."""

    backend: str
    device_class: str
    per_source: bool = False  # one case of every source is enough: nothing runs there
    board: Device | None = field(
        default=None, compare=False
    )  # one of the class, whose figures needs are held to


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
    crashes: int  # attempts that crashed; the second decides
    verdict: Verdict | None  # None until done; by the campaign's own rule where it has one
    evidence_id: str | None  # of the line that decided; None where it was cancelled
    done_us: int | None
    repeats: int
    source_digest: str
    inputs_digest: str


def add_targets(s: Session, campaign_id: int, targets: Iterable[Target], now_us: int) -> int:
    """Makes the jobs of an open campaign that these targets lack; returns how many were new."""
    _demand_open(s, campaign_id)
    there = {(t.backend, t.device_class) for t in targets_of(s, campaign_id)}
    wanted = [t for t in dict.fromkeys(targets) if (t.backend, t.device_class) not in there]
    if not wanted:
        return 0
    rows = _planned(s, campaign_id)
    one_each = representatives(rows)
    wanted.sort(key=lambda target: (target.device_class, target.backend))
    pairs = [
        (row, target) for row in rows for target in wanted if not target.per_source or row.case_id in one_each
    ]
    return _make(s, campaign_id, pairs, now_us)


def add_jobs(s: Session, campaign_id: int, wanted: Iterable[tuple[str, Target]], now_us: int) -> int:
    """Makes jobs of cases that the campaign has planned, each at one target; returns how many."""
    _demand_open(s, campaign_id)
    rows = {row.case_id: row for row in _planned(s, campaign_id)}
    pairs = [(rows[case_id], target) for case_id, target in wanted]
    pairs.sort(key=lambda pair: (pair[0].position, pair[1].device_class, pair[1].backend))
    return _make(s, campaign_id, pairs, now_us)


def representatives(rows: Iterable[Any]) -> set[str]:
    """The id of every source's first planned case; one with inputs goes first: a refused case has none."""
    chosen: dict[str, Any] = {}
    for row in rows:
        held = chosen.setdefault(row.source_digest, row)
        if row.inputs_digest and not held.inputs_digest:
            chosen[row.source_digest] = row
    return {row.case_id for row in chosen.values()}


def jobs_of(
    s: Session, campaign_id: int, verdicts: Collection[Verdict] = (), most: int | None = None
) -> tuple[JobRow, ...]:
    """The jobs of a campaign in the order in which they are leased; all, or those that ended like that."""
    mine = job.c.campaign_id == campaign_id
    return _jobs(s, sa.and_(mine, job.c.verdict.in_(verdicts)) if verdicts else mine, most)


def job_row(s: Session, job_id: int) -> JobRow:
    """One job; UsageError where there is none."""
    for row in _jobs(s, job.c.id == job_id) if job_id <= LARGEST_ID else ():
        return row
    raise UsageError(f"no job {job_id} in this database; farm status lists the campaigns")


def targets_of(s: Session, campaign_id: int) -> tuple[Target, ...]:
    """Where a campaign has jobs."""
    columns = (target_table.c.backend, target_table.c.device_class)
    query = sa.select(*columns).where(target_table.c.campaign_id == campaign_id).distinct()
    return tuple(Target(*row) for row in s.execute(query.order_by(columns[1], columns[0])))


def _demand_open(s: Session, campaign_id: int) -> None:
    columns = (campaign.c.closed_us, campaign.c.cancelled_us)
    row = s.execute(sa.select(*columns).where(campaign.c.id == campaign_id)).one()
    if row.closed_us is not None or row.cancelled_us is not None:
        state = "closed" if row.closed_us is not None else "cancelled"
        raise UsageError(
            f"campaign {campaign_id} is {state} and takes no more jobs; submit its selection again"
        )


def _planned(s: Session, campaign_id: int) -> Sequence[Any]:
    mine = planned_table.c.campaign_id == campaign_id
    return s.execute(sa.select(planned_table).where(mine).order_by(planned_table.c.position)).all()


def _make(s: Session, campaign_id: int, pairs: Sequence[tuple[Any, Target]], now_us: int) -> int:
    """Inserts a job for every planned row and target; one that the class can't run is done at once."""
    target_ids = _target_ids(s, campaign_id, pairs, now_us)
    lines = _refuse(s, campaign_id, pairs, now_us)
    jobs = []
    for row, target in pairs:
        line = lines.get((row.case_id, target))
        jobs.append(
            {
                "campaign_id": campaign_id,
                "case_id": row.case_id,
                "backend": target.backend,
                "device_class": target.device_class,
                "target_id": target_ids[_place(row, target)],
                "losses": 0,
                "state": "done" if line else "waiting",
                "verdict": Verdict.SKIP.value if line else None,
                "evidence_id": line,
                "done_us": now_us if line else None,
            }
        )
    if jobs:
        s.execute(sa.insert(job), jobs)
    return len(jobs)


def _place(row: Any, target: Target) -> tuple[str, str, str]:
    return target.backend, target.device_class, needs_of(row.needs).of_worker.to_text()


def _target_ids(
    s: Session, campaign_id: int, pairs: Sequence[tuple[Any, Target]], now_us: int
) -> dict[tuple[str, str, str], int]:
    """The row of every place that these jobs ask for; those that aren't there are made."""
    names = ("backend", "device_class", "needs")
    places = dict.fromkeys(_place(row, target) for row, target in pairs)
    insert_new(
        s,
        target_table,
        [
            {"campaign_id": campaign_id, "made_us": now_us} | dict(zip(names, place, strict=True))
            for place in places
        ],
    )
    columns = [target_table.c[name] for name in names]
    query = sa.select(target_table.c.id, *columns).where(target_table.c.campaign_id == campaign_id)
    return {(row.backend, row.device_class, row.needs): row.id for row in s.execute(query)}


def _refuse(
    s: Session, campaign_id: int, pairs: Sequence[tuple[Any, Target]], now_us: int
) -> dict[tuple[str, Target], str]:
    """Writes a line for every job that no board of its class can run; gives their ids."""
    reasons = {
        (row.case_id, target): (row, target.board, why)
        for row, target in pairs
        if target.board and (why := unmet_by_class(needs_of(row.needs), offer_of(target.board)))
    }
    for board in {board for _, board, _ in reasons.values()}:
        see(s, board, now_us)
    chosen = cases.c.case_id.in_({row.case_id for row, _, _ in reasons.values()})
    texts = s.execute(sa.select(cases.c.case_id, cases.c.case_json).where(chosen)).all() if reasons else []
    by_id = {case_id: case_of(text) for case_id, text in texts}
    ids, entries = {}, []
    for (case_id, target), (row, board, why) in reasons.items():
        name = f"{campaign_id}/{case_id}/{target.backend}/{target.device_class}"
        ids[case_id, target] = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        digests = (row.source_digest, row.inputs_digest)
        about = About(by_id[case_id], case_id, *digests, board, target.backend, row.repeats)
        line = own_line(ids[case_id, target], about, Verdict.SKIP, why, (now_us, now_us))
        entries.append(Entry(line, None, folded=True))
    append(s, entries, now_us)
    return ids


def _jobs(s: Session, where: sa.ColumnElement[bool], most: int | None = None) -> tuple[JobRow, ...]:
    names = [name for name in JobRow.__dataclass_fields__ if name in job.c]
    planned = [planned_table.c[name] for name in ("repeats", "source_digest", "inputs_digest")]
    query = (
        sa.select(*(job.c[name] for name in names), *planned, cases.c.case_json)
        .join_from(job, planned_table)
        .join(cases, cases.c.case_id == job.c.case_id)
        .where(where)
        .order_by(job.c.id)
        .limit(most)
    )
    return tuple(_job_row(dict(row._mapping)) for row in s.execute(query))


def _job_row(values: dict[str, object]) -> JobRow:
    case = case_of(str(values.pop("case_json")))
    verdict = values.pop("verdict")
    return JobRow(case=case, verdict=Verdict(verdict) if verdict else None, **values)  # type: ignore[arg-type]
