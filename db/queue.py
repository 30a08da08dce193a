"""Who works on what: jobs are leased, started and given back, all under one epoch.

    lease(s, epoch, Worker(…), limit, now_us, peers) -> tuple[Leased, ...]
    owes(s, worker) -> bool                               # whether its class has jobs without a verdict
    start(s, epoch, attempt_ids, now_us)                  # from here on a loss is charged
    give_back(s, epoch, attempt_ids, now_us)              # unstarted and uncharged
    live(s) -> tuple[Held, ...]                           # what is leased or started now
    ended(s, attempt_ids) -> set[str]                     # those that are nobody's any more
Attempts whose worker is gone end in db.loss, those that a line speaks for in db.outcome. Every function that
writes raises StaleEpoch when another coordinator has started since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.attempt import end_attempts, live_rows, requeue, set_jobs
from db.bulk import insert_rows
from db.cases import case_of
from db.epoch import demand_epoch
from db.needs import UNKNOWN, Offer, absent_file, needs_of, old_driver
from db.session import Session
from db.share import Waiting, in_turn
from db.tables import LIVE, attempt, campaign, cases, job, planned, target
from kernels.evidence import Rule
from kernels.ids import new_id
from kernels.model import Case

WAITING = sa.text("job.state = 'waiting'")  # as the partial index says it

# Made once: a lease is asked for many times a second.
MINE = sa.and_(job.c.target_id == sa.bindparam("target_id"), WAITING)
LIMIT = sa.bindparam("limit", type_=sa.Integer)
NOT_LOST_HERE = sa.or_(job.c.avoid.is_(None), job.c.avoid != sa.bindparam("device"))


opened = campaign.alias("opened")
OPEN_TARGETS = (
    sa.select(
        target,
        campaign.c.priority,
        campaign.c.rule,
        campaign.c.pack,
        campaign.c.bench,
        sa.exists().where(job.c.target_id == target.c.id, WAITING).label("waits"),
    )
    .join(campaign, campaign.c.id == target.c.campaign_id)
    .where(
        # From the open campaigns to their targets, not the other way round: most targets are of closed ones.
        target.c.campaign_id.in_(sa.select(opened.c.id).where(opened.c.closed_us.is_(None))),
        campaign.c.paused_us.is_(None),
        target.c.device_class == sa.bindparam("device_class"),
        target.c.backend.in_(sa.bindparam("backends", expanding=True)),
    )
)
CLAIM = (
    sa.select(
        job.c.id,
        job.c.campaign_id,
        job.c.backend,
        planned.c.source_digest,
        planned.c.inputs_digest,
        planned.c.repeats,
        cases.c.case_json,
    )
    .join_from(job, planned)
    .join(cases, cases.c.case_id == job.c.case_id)
    .where(MINE)
    .order_by(job.c.id)
    .limit(LIMIT)
    .with_for_update(of=job, skip_locked=True)
)
CLAIM_ELSEWHERE = CLAIM.where(NOT_LOST_HERE)
START = (
    sa.update(attempt)
    .where(attempt.c.attempt_id.in_(sa.bindparam("ids", expanding=True)), attempt.c.state == "leased")
    .values(state="started", started_us=sa.bindparam("now_us"))
)


@dataclass(frozen=True)
class Worker:
    """Who asks for work, and what it can do."""

    worker_id: str
    device: str  # slug
    device_class: str
    backends: tuple[str, ...]
    offer: Offer = UNKNOWN


@dataclass(frozen=True)
class Place:
    """A target of an open campaign, as one worker sees it."""

    row: Any  # of OPEN_TARGETS
    left_to_others: bool  # what was lost on this worker's board

    @property
    def waiting(self) -> Waiting:
        return Waiting(self.row.id, self.row.campaign_id, self.row.priority)


@dataclass(frozen=True)
class Leased:
    """One job, held by a worker under an attempt of its own."""

    attempt_id: str
    job_id: int
    campaign_id: int
    case: Case
    backend: str
    source_digest: str
    inputs_digest: str  # empty where nobody has made the inputs yet
    repeats: int
    rule: Rule
    pack: str = ""  # address of the catalog that the case's kernel is in; empty for the farm's own
    bench: bool = False  # whether it is timed where it passes


@dataclass(frozen=True)
class Held:
    """A live attempt: leased, and started where `started_us` says so."""

    attempt_id: str
    job_id: int
    worker_id: str
    device: str
    epoch: int
    leased_us: int
    started_us: int | None


def lease(
    s: Session, epoch: int, worker: Worker, limit: int, now_us: int, peers: Sequence[Worker] = ()
) -> tuple[Leased, ...]:
    """Up to `limit` waiting jobs that the worker can run: by campaign priority, campaign age, then place.

    `peers` are the workers that are at work now. A job that was lost on this board is left to another board
    of the class while there is one, and so is a job whose files this worker lacks and another holds.
    """
    demand_epoch(s, epoch)
    places = {
        row.id: Place(row, _left_to_others(row, worker, peers))
        for row in _open_targets(s, worker)
        if row.waits and _may_take(row, worker, peers)
    }
    found: list[Leased] = []
    for target_id in in_turn(place.waiting for place in places.values()):
        if len(found) < limit:
            found += _claim(s, places[target_id], worker, limit - len(found), now_us)
    if found:
        insert_rows(s, attempt, [_attempt_row(leased, worker, epoch, now_us) for leased in found])
        set_jobs(s, [leased.job_id for leased in found], state="leased")
    return tuple(found)


def owes(s: Session, worker: Worker) -> bool:
    """Whether an open campaign has a job without a verdict that this worker could run, whoever holds it."""
    return any(_may_take(row, worker, ()) and _has_open(s, row) for row in _open_targets(s, worker))


def start(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int) -> None:
    """Notes which attempts their workers have begun; from here on a loss is charged to the job."""
    demand_epoch(s, epoch)
    s.execute(START, {"ids": list(attempt_ids), "now_us": now_us})


def give_back(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int) -> tuple[int, ...]:
    """Makes the jobs of unstarted attempts wait again, uncharged; started ones stay. Returns the job ids."""
    demand_epoch(s, epoch)
    rows = [row for row in live_rows(s, attempt.c.attempt_id.in_(list(attempt_ids))) if row.state == "leased"]
    end_attempts(s, rows, "returned", "given back unstarted", now_us)
    return requeue(s, [row for row in rows if row.job_state == "leased"], now_us)


def live(s: Session) -> tuple[Held, ...]:
    """Every live attempt, oldest first."""
    columns = [attempt.c[name] for name in Held.__dataclass_fields__]
    query = sa.select(*columns).where(sa.text(LIVE)).order_by(attempt.c.leased_us, attempt.c.job_id)
    return tuple(Held(*row) for row in s.execute(query))


def ended(s: Session, attempt_ids: Iterable[str]) -> set[str]:
    """Those of the attempts that somebody else ended: their campaign was cancelled."""
    mine = attempt.c.attempt_id.in_(list(attempt_ids))
    query = sa.select(attempt.c.attempt_id).where(mine, attempt.c.ended_us.is_not(None))
    return set(s.execute(query).scalars())


def _open_targets(s: Session, worker: Worker) -> Sequence[Any]:
    """Where open campaigns have jobs for the worker's class and backends, and whether any waits there."""
    values = {"device_class": worker.device_class, "backends": list(worker.backends)}
    return s.execute(OPEN_TARGETS, values).all()


def _may_take(row: Any, worker: Worker, peers: Sequence[Worker]) -> bool:
    """Whether the worker has what a target needs.

    A file is left to the peers that hold it; where none does, the worker takes the job and says so.
    """
    needs = needs_of(row.needs)
    if needs.other_than == worker.device or old_driver(needs, worker.offer):
        return False
    return not absent_file(needs, worker.offer) or not any(can_run(row, peer) for peer in peers)


def can_run(row: Any, peer: Worker) -> bool:
    """Whether a worker has all that a target asks for."""
    needs = needs_of(row.needs)
    fits = row.device_class == peer.device_class and row.backend in peer.backends
    fits = fits and needs.other_than != peer.device
    return fits and not old_driver(needs, peer.offer) and not absent_file(needs, peer.offer)


def _left_to_others(row: Any, worker: Worker, peers: Sequence[Worker]) -> bool:
    """Whether what was lost on this board is another's: one is at work that may run it."""
    return any(peer.device != worker.device and can_run(row, peer) for peer in peers)


def _has_open(s: Session, row: Any) -> bool:
    held = sa.select(job.c.id).where(
        job.c.campaign_id == row.campaign_id, job.c.state == "leased", job.c.target_id == row.id
    )
    return row.waits or s.execute(held.limit(1)).first() is not None


def _claim(s: Session, place: Place, worker: Worker, limit: int, now_us: int) -> list[Leased]:
    values: dict[str, Any] = {"target_id": place.row.id, "limit": limit}
    query = CLAIM_ELSEWHERE if place.left_to_others else CLAIM
    found = s.execute(query, values | ({"device": worker.device} if place.left_to_others else {}))
    return [_leased(each, place.row, now_us) for each in found]


def _leased(row: Any, of_target: Any, now_us: int) -> Leased:
    return Leased(
        attempt_id=new_id(now_us),
        job_id=row.id,
        campaign_id=row.campaign_id,
        case=case_of(row.case_json),
        backend=row.backend,
        source_digest=row.source_digest,
        inputs_digest=row.inputs_digest,
        repeats=row.repeats,
        rule=Rule(of_target.rule),
        pack=of_target.pack,
        bench=of_target.bench,
    )


def _attempt_row(leased: Leased, worker: Worker, epoch: int, now_us: int) -> dict[str, object]:
    return {
        "attempt_id": leased.attempt_id,
        "job_id": leased.job_id,
        "worker_id": worker.worker_id,
        "device": worker.device,
        "epoch": epoch,
        "state": "leased",
        "reason": "",
        "leased_us": now_us,
    }
