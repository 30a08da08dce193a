"""Attempts whose worker is gone: who is charged, what is written down, and when a job is LOST.

lose(s, epoch, attempt_ids, now_us, reason) -> Losses
reclaim_all(s, epoch, now_us) -> Losses               # ends what an earlier epoch left leased
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from db.attempt import decide, end_attempts, live_rows, requeue
from db.bulk import update_rows
from db.epoch import demand_epoch
from db.evidence import Entry, append
from db.own_line import lines_instead
from db.second import keep_first
from db.session import Session
from db.tables import attempt, job
from kernels.evidence import Verdict

LOSS_BUDGET = 3  # started attempts a job may lose before it is LOST


@dataclass(frozen=True)
class Losses:
    """What became of the jobs of attempts that were lost."""

    requeued: tuple[int, ...] = ()  # job ids
    lost: tuple[int, ...] = ()  # job ids whose budget is spent


def lose(s: Session, epoch: int, attempt_ids: Iterable[str], now_us: int, reason: str) -> Losses:
    """Ends live attempts whose worker is gone. A started one gets a line by the coordinator and is charged.

    The job waits again, for another board first, or is LOST once LOSS_BUDGET started attempts are gone.
    `reason` names what happened.
    """
    demand_epoch(s, epoch)
    return _miss(s, live_rows(s, attempt.c.attempt_id.in_(list(attempt_ids))), now_us, reason, charge=1)


def reclaim_all(s: Session, epoch: int, now_us: int) -> Losses:
    """Ends every attempt leased under an older epoch; uncharged, since it was the coordinator that went."""
    demand_epoch(s, epoch)
    reason = "the coordinator ended before the attempt"
    return _miss(s, live_rows(s, attempt.c.epoch < epoch), now_us, reason, charge=0)


def _miss(s: Session, rows: Sequence[Any], now_us: int, reason: str, charge: int) -> Losses:
    """Ends attempts without a worker's line: started ones are charged, written down and perhaps final."""
    started = [row for row in rows if row.state == "started" and row.job_state == "leased"]
    spent = {row.job_id for row in started if charge and row.losses + charge >= LOSS_BUDGET}
    entries = _entries(s, started, spent, now_us, reason)
    append(s, entries, now_us)
    end_attempts(s, rows, "MISS", reason, now_us)
    _charge(s, started, charge)
    again = [row for row in rows if row.job_state == "leased" and row.job_id not in spent]
    requeued = requeue(s, [row for row in again if row.state != "started"], now_us)
    requeued += requeue(s, [row for row in again if row.state == "started"], now_us, avoid=bool(charge))
    by_attempt = {entry.attempt_id: entry.line.evidence_id for entry in entries}
    lost = [row for row in started if row.job_id in spent]
    decide(s, [(row.job_id, Verdict.LOST, by_attempt[row.attempt_id]) for row in lost], now_us)
    kept = keep_first(s, job.c.id.in_([row.job_id for row in lost]), now_us) if lost else set()
    return Losses(requeued, tuple(row.job_id for row in lost if row.job_id not in kept))


def _charge(s: Session, rows: Sequence[Any], amount: int) -> None:
    if amount:
        update_rows(s, job, ("id",), [{"id": row.job_id, "losses": row.losses + amount} for row in rows])


def _entries(s: Session, rows: Sequence[Any], spent: set[int], now_us: int, reason: str) -> list[Entry]:
    """The lines of started attempts that left none; only a job's last one counts for its cell."""
    named = {row.attempt_id: row for row in rows}
    lines = lines_instead(s, named, dict.fromkeys(named, reason), Verdict.LOST, now_us)
    return [Entry(line, name, folded=named[name].job_id in spent) for name, line in lines.items()]
