"""Who works on what: jobs are leased, started, given back, lost or completed, all under one epoch.

    epoch = raise_epoch(s, now_us)                        # at the coordinator's start; refuses older ones
    reclaim_all(s, epoch, now_us) -> Losses               # ends what an earlier epoch left leased
    lease(s, epoch, Worker(…), limit, now_us) -> tuple[Leased, ...]
    owes(s, worker) -> bool                               # whether its class has jobs without a verdict
    start(s, epoch, attempt_ids, now_us)                  # from here on a loss is charged
    give_back(s, epoch, attempt_ids, now_us)              # unstarted and uncharged
    lose(s, epoch, attempt_ids, now_us, reason) -> Losses
    complete(s, epoch, line, now_us) -> Outcome
    complete_many(s, epoch, lines, now_us) -> tuple[Outcome, ...]      # for a writer that groups
    live(s) -> tuple[Held, ...]                           # what is leased or started now
Every one raises StaleEpoch when another coordinator has started since.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.campaign import case_of
from db.evidence import Entry, append, known
from db.loss import coordinator_entries
from db.session import Session, insert_new
from db.tables import attempt, campaign, cases, job, planned
from db.tables import epoch as epoch_table
from kernels.errors import FarmError
from kernels.model import Case, Evidence, Rule, Verdict

LOSS_BUDGET = 3  # started attempts a job may lose before it is LOST
LIVE_STATES = ("leased", "started")


class StaleEpoch(FarmError):
    """Another coordinator has started since; this one must stop."""


@dataclass(frozen=True)
class Worker:
    """Who asks for work, and what it can do."""

    worker_id: str
    device: str  # slug
    device_class: str
    backends: tuple[str, ...]


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


@dataclass(frozen=True)
class Losses:
    """What became of the jobs of attempts that were lost."""

    requeued: tuple[int, ...] = ()  # job ids
    lost: tuple[int, ...] = ()  # job ids whose budget is spent


@dataclass(frozen=True)
class Outcome:
    """What a line did. Every one of them may be acknowledged: it is stored."""

    evidence_id: str
    new: bool  # false for a line that was here already
    job_id: int | None  # None where the line's attempt is unknown here or is about something else
    decided: bool  # this line gave the job its verdict
    verdict: Verdict  # the line's, by the campaign's rule
    note: str = ""  # why a line decided nothing


def raise_epoch(s: Session, now_us: int) -> int:
    """Begins an epoch: whoever still works under an older one is refused from here on."""
    insert_new(s, epoch_table, [{"id": 1, "epoch": 0, "raised_us": now_us}])
    s.execute(sa.update(epoch_table).values(epoch=epoch_table.c.epoch + 1, raised_us=now_us))
    return current_epoch(s)


def current_epoch(s: Session) -> int:
    """The epoch that counts; 0 before the first."""
    return s.execute(sa.select(epoch_table.c.epoch)).scalar() or 0


def demand_epoch(s: Session, epoch: int) -> None:
    """StaleEpoch unless `epoch` is the one that counts, and goes on to be until this transaction ends."""
    now = s.execute(sa.select(epoch_table.c.epoch).with_for_update(read=True)).scalar() or 0
    if now != epoch:
        raise StaleEpoch(
            f"epoch {epoch} is over, {now} has begun: another coordinator is in charge; this one stops"
        )


def lease(s: Session, epoch: int, worker: Worker, limit: int, now_us: int) -> tuple[Leased, ...]:
    """Up to `limit` waiting jobs of the worker's class: by campaign priority, campaign age, then place."""
    demand_epoch(s, epoch)
    found: list[Leased] = []
    order = (campaign.c.priority.desc(), campaign.c.id)
    query = sa.select(campaign.c.id, campaign.c.rule).where(campaign.c.closed_us.is_(None)).order_by(*order)
    for campaign_id, rule in s.execute(query).all():
        if len(found) < limit:
            found += _waiting(s, campaign_id, Rule(rule), worker, limit - len(found))
    if found:
        s.execute(sa.insert(attempt), [_attempt_row(leased, worker, epoch, now_us) for leased in found])
        _set_jobs(s, [leased.job_id for leased in found], state="leased")
    return tuple(found)


def owes(s: Session, worker: Worker) -> bool:
    """Whether an open campaign has a job for the worker's class without a verdict, whoever holds it."""
    left = (
        sa.select(job.c.id)
        .join(campaign, campaign.c.id == job.c.campaign_id)
        .where(
            campaign.c.closed_us.is_(None),
            job.c.device_class == worker.device_class,
            job.c.backend.in_(worker.backends),
            job.c.state != "done",
        )
    )
    return s.execute(left.limit(1)).first() is not None


def _waiting(s: Session, campaign_id: int, rule: Rule, worker: Worker, limit: int) -> list[Leased]:
    query = (
        sa.select(job.c.id, job.c.backend, planned, cases.c.case_json)
        .join_from(job, planned)
        .join(cases, cases.c.case_id == job.c.case_id)
        .where(
            job.c.campaign_id == campaign_id,
            job.c.device_class == worker.device_class,
            job.c.state == sa.literal_column("'waiting'"),  # as the partial index says it
            job.c.backend.in_(worker.backends),
        )
        .order_by(job.c.id)
        .limit(limit)
        .with_for_update(of=job, skip_locked=True)
    )
    return [_leased(row, campaign_id, rule) for row in s.execute(query)]


def _leased(row: Any, campaign_id: int, rule: Rule) -> Leased:
    return Leased(
        attempt_id=str(uuid.uuid4()),
        job_id=row.id,
        campaign_id=campaign_id,
        case=case_of(row.case_json),
        backend=row.backend,
        source_digest=row.source_digest,
        inputs_digest=row.inputs_digest,
        repeats=row.repeats,
        rule=rule,
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


def start(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int) -> None:
    """Notes which attempts their workers have begun; from here on a loss is charged to the job."""
    demand_epoch(s, epoch)
    mine = attempt.c.attempt_id.in_(list(attempt_ids))
    begun = (
        sa.update(attempt).where(mine, attempt.c.state == "leased").values(state="started", started_us=now_us)
    )
    s.execute(begun)


def give_back(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int) -> tuple[int, ...]:
    """Makes the jobs of unstarted attempts wait again, uncharged; started ones stay. Returns the job ids."""
    demand_epoch(s, epoch)
    rows = [row for row in _live(s, attempt.c.attempt_id.in_(list(attempt_ids))) if row.state == "leased"]
    _end_attempts(s, rows, "returned", "given back unstarted", now_us)
    return _requeue(s, [row for row in rows if row.job_state == "leased"])


def lose(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int, reason: str) -> Losses:
    """Ends live attempts whose worker is gone. A started one gets a line by the coordinator and is charged.

    The job waits again, or is LOST once LOSS_BUDGET started attempts are gone. `reason` names what happened.
    """
    demand_epoch(s, epoch)
    return _miss(s, _live(s, attempt.c.attempt_id.in_(list(attempt_ids))), now_us, reason, charge=1)


def reclaim_all(s: Session, epoch: int, now_us: int) -> Losses:
    """Ends every attempt leased under an older epoch; uncharged, since it was the coordinator that went."""
    demand_epoch(s, epoch)
    return _miss(
        s, _live(s, attempt.c.epoch < epoch), now_us, "the coordinator ended before the attempt", charge=0
    )


def live(s: Session) -> tuple[Held, ...]:
    """Every live attempt, oldest first."""
    columns = [attempt.c[name] for name in Held.__dataclass_fields__]
    query = (
        sa.select(*columns)
        .where(attempt.c.state.in_(LIVE_STATES))
        .order_by(attempt.c.leased_us, attempt.c.job_id)
    )
    return tuple(Held(*row) for row in s.execute(query))


def complete(s: Session, epoch: int, line: Evidence, now_us: int) -> Outcome:
    """Closes the line's attempt, stores the line, decides the job and folds the cell; as complete_many."""
    return complete_many(s, epoch, [line], now_us)[0]


def complete_many(s: Session, epoch: int, lines: Sequence[Evidence], now_us: int) -> tuple[Outcome, ...]:
    """Takes finished attempts in. The first line decides a job; a late one is kept, linked and not folded.

    A line counts for its cell, but for no job, where its attempt is unknown here or is about something else.
    """
    demand_epoch(s, epoch)
    rows = {row.attempt_id: row for row in _attempts(s, lines)}
    done = {row.job_id for row in rows.values() if row.job_state == "done"}
    seen = known(s, [line.evidence_id for line in lines])
    entries: list[Entry] = []
    outcomes: list[Outcome] = []
    for line in lines:
        row = rows.get(line.attempt_id)
        outcome = _outcome(line, row, done, seen)
        late = outcome.job_id is not None and not outcome.decided
        entries.append(Entry(line, None if outcome.job_id is None else line.attempt_id, folded=not late))
        outcomes.append(outcome)
        seen.add(line.evidence_id)
        done |= {outcome.job_id} if outcome.decided and outcome.job_id is not None else set()
    append(s, entries, now_us)
    ended = [rows[entry.attempt_id] for entry in entries if entry.attempt_id]
    _end_attempts(s, [row for row in ended if row.state in LIVE_STATES], "done", "", now_us)
    _decide(s, outcomes, now_us)
    return tuple(outcomes)


def _outcome(line: Evidence, row: Any, done: set[int], seen: set[str]) -> Outcome:
    new, verdict = line.evidence_id not in seen, line.rule_verdict or line.verdict
    if stranger := _stranger(line, row):
        return Outcome(line.evidence_id, new, None, False, verdict, stranger)
    decided = row.job_id not in done
    note = "" if decided else ("late: the job has its verdict" if new else "this line is here already")
    return Outcome(line.evidence_id, new, row.job_id, decided, verdict, note)


def _stranger(line: Evidence, row: Any) -> str:
    """Why a line can't speak for the attempt that it names; empty if it can."""
    if row is None:
        return f"no attempt {line.attempt_id!r} here"
    said = {
        "case": (line.case_id, row.case_id),
        "backend": (line.backend, row.backend),
        "source": (line.source_digest, row.source_digest),
        "device": (line.device.slug, row.device),
    }
    wrong = [
        f"{noun} is {got[:16]}, the attempt's {want[:16]}"
        for noun, (got, want) in said.items()
        if got != want
    ]
    return "; ".join(wrong)


def _attempts(s: Session, lines: Sequence[Evidence]) -> Sequence[Any]:
    return _joined(s, attempt.c.attempt_id.in_([line.attempt_id for line in lines if line.attempt_id]))


def _live(s: Session, where: sa.ColumnElement[bool]) -> Sequence[Any]:
    return _joined(s, sa.and_(where, attempt.c.state.in_(LIVE_STATES)))


def _joined(s: Session, where: sa.ColumnElement[bool]) -> Sequence[Any]:
    """Attempts with their job and what it was planned with."""
    query = (
        sa.select(
            attempt,
            job.c.case_id,
            job.c.backend,
            job.c.losses,
            job.c.state.label("job_state"),
            planned.c.source_digest,
            planned.c.inputs_digest,
            planned.c.repeats,
        )
        .join_from(attempt, job)
        .join(
            planned, sa.and_(planned.c.campaign_id == job.c.campaign_id, planned.c.case_id == job.c.case_id)
        )
        .where(where)
    )
    return s.execute(query).all()


def _miss(s: Session, rows: Sequence[Any], now_us: int, reason: str, charge: int) -> Losses:
    """Ends attempts without a worker's line: started ones are charged, written down and perhaps final."""
    started = [row for row in rows if row.state == "started" and row.job_state == "leased"]
    spent = {row.job_id for row in started if charge and row.losses + charge >= LOSS_BUDGET}
    entries = coordinator_entries(s, started, spent, now_us, reason)
    append(s, entries, now_us)
    _end_attempts(s, rows, "MISS", reason, now_us)
    _charge(s, started, charge)
    requeued = _requeue(s, [row for row in rows if row.job_state == "leased" and row.job_id not in spent])
    by_attempt = {entry.attempt_id: entry.line for entry in entries}
    lost = [row for row in started if row.job_id in spent]
    outcomes = [
        Outcome(by_attempt[row.attempt_id].evidence_id, True, row.job_id, True, Verdict.LOST) for row in lost
    ]
    _decide(s, outcomes, now_us)
    return Losses(requeued, tuple(row.job_id for row in lost))


def _end_attempts(s: Session, rows: Sequence[Any], state: str, reason: str, now_us: int) -> None:
    if rows:
        ending = sa.update(attempt).where(attempt.c.attempt_id == sa.bindparam("id"))
        ending = ending.values(state=state, reason=reason, ended_us=now_us)
        s.execute(ending, [{"id": row.attempt_id} for row in rows])


def _requeue(s: Session, rows: Sequence[Any]) -> tuple[int, ...]:
    ids = tuple(row.job_id for row in rows)
    _set_jobs(s, ids, state="waiting")
    return ids


def _charge(s: Session, rows: Sequence[Any], amount: int) -> None:
    if rows and amount:
        charging = sa.update(job).where(job.c.id == sa.bindparam("job")).values(losses=job.c.losses + amount)
        s.execute(charging, [{"job": row.job_id} for row in rows])


def _decide(s: Session, outcomes: Sequence[Outcome], now_us: int) -> None:
    """Gives jobs the verdict of the line that decided them."""
    rows = [
        {"job": found.job_id, "v": found.verdict.value, "line": found.evidence_id}
        for found in outcomes
        if found.decided
    ]
    if rows:
        deciding = sa.update(job).where(job.c.id == sa.bindparam("job"))
        values: dict[str, Any] = {"verdict": sa.bindparam("v"), "evidence_id": sa.bindparam("line")}
        s.execute(deciding.values(state="done", done_us=now_us, **values), rows)


def _set_jobs(s: Session, ids: Sequence[int], **values: object) -> None:
    if ids:
        setting = sa.update(job).where(job.c.id == sa.bindparam("job")).values(**values)
        s.execute(setting, [{"job": job_id} for job_id in ids])
