"""What the lines of finished attempts do: they are stored, decide their jobs once, and cells are folded.

complete(s, epoch, line, now_us) -> Outcome
complete_many(s, epoch, lines, now_us) -> tuple[Outcome, ...]      # for a writer that groups
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from db.attempt import LIVE_STATES, attempts_named, decide, end_attempts, requeue
from db.bulk import update_rows
from db.capability import fold_cells
from db.cell import CellKey
from db.epoch import demand_epoch
from db.evidence import Entry, append, known
from db.fit import is_text, unfit
from db.own_line import lines_instead
from db.second import keep_first
from db.session import Session
from db.tables import CELL, attempt, evidence, job
from kernels.evidence import Evidence, Verdict

LATE = "late: the job has its verdict"
same_work = attrgetter("case_id", "backend", "source_digest")
UNTOLD = (Verdict.SKIP, Verdict.ERROR, Verdict.LOST)  # nothing was learned of what the kernel computes
SPOKEN = "its attempt has ended with another line"
CRASHES = 2  # alone, on two boards or twice on the only one, before it is the kernel's


@dataclass(frozen=True)
class Outcome:
    """What a line did. Every one of them may be acknowledged: it is stored, or nothing can store it."""

    evidence_id: str
    new: bool  # false for a line that was here already
    job_id: int | None  # None where the line's attempt is unknown here or is about something else
    decided: bool  # this line gave the job its verdict
    verdict: Verdict  # the line's, by the campaign's rule
    note: str = ""  # why a line decided nothing, or wasn't kept
    kept: bool = True  # false for a line that no database can hold; the coordinator's own may stand in for it

    @property
    def is_late(self) -> bool:
        """Whether another line was faster: this one is kept and folded nowhere."""
        return self.note in (LATE, SPOKEN)


@dataclass
class Jobs:
    """The jobs that a batch of lines speaks of, as they are after the lines looked at so far."""

    rows: dict[str, Any]  # attempt id to attempt and job
    seen: set[str]  # evidence ids that are stored
    done: set[int]
    spoken: set[str]  # attempts of which a line was told: another decides nothing, should the job wait again
    crashed: defaultdict[int, set[str]]  # job id to the attempts that crashed
    late: set[str] = field(default_factory=set)  # evidence ids
    counted: set[int] = field(default_factory=set)  # jobs of which a crash was told

    def take(self, line: Evidence) -> Outcome:
        """What one line does to its job."""
        row = self.rows.get(line.attempt_id)
        new, verdict = line.evidence_id not in self.seen, line.rule_verdict or line.verdict
        self.seen.add(line.evidence_id)
        if stranger := _stranger(line, row):
            return Outcome(line.evidence_id, new, None, False, verdict, stranger)
        assert row is not None  # else it is a stranger's
        note = self._why_undecided(line, row, new)
        if not note:
            self.done.add(row.job_id)
        return Outcome(line.evidence_id, new, row.job_id, not note, verdict, note)

    def _why_undecided(self, line: Evidence, row: Any, new: bool) -> str:
        if row.job_id in self.done:
            self.late |= {line.evidence_id} if new else set()
            return LATE if new else "this line is here already"
        if line.attempt_id in self.spoken:
            self.late |= {line.evidence_id} if new else set()
            return SPOKEN if new else "this line is here already"
        if row.state in LIVE_STATES:
            self.spoken.add(line.attempt_id)
        if line.verdict is not Verdict.CRASH:
            return ""
        self.crashed[row.job_id].add(line.attempt_id)
        self.counted.add(row.job_id)
        return "" if len(self.crashed[row.job_id]) >= CRASHES else "a crash counts when it happens again"


def complete(s: Session, epoch: int, line: Evidence, now_us: int) -> Outcome:
    """Closes the line's attempt, stores the line, decides the job and folds the cell; as complete_many."""
    return complete_many(s, epoch, [line], now_us)[0]


def complete_many(s: Session, epoch: int, lines: Sequence[Evidence], now_us: int) -> tuple[Outcome, ...]:
    """Takes finished attempts in. The first line decides a job; a late one is kept, linked and not folded.

    A CRASH decides when it is the job's second: till then its job goes to another board, or once more to the
    only one. A line counts for its cell, but for no job, where its attempt is unknown here or is about
    something else. In the place of one that no database can hold stands the coordinator's own, ERROR,
    where it spoke for a live attempt: nothing else of the batch is lost by it.
    """
    demand_epoch(s, epoch)
    named = [line.attempt_id for line in lines if line.attempt_id and is_text(line.attempt_id)]
    rows = {row.attempt_id: row for row in attempts_named(s, named)}
    reasons = {place: reason for place, line in enumerate(lines) if (reason := unfit(line))}
    instead = _instead(s, lines, reasons, rows, now_us) if reasons else {}
    taken = [instead.get(n, line) for n, line in enumerate(lines) if n in instead or n not in reasons]
    outcomes = iter(_take_in(s, taken, rows, now_us))
    told = {n: next(outcomes) for n in range(len(lines)) if n in instead or n not in reasons}
    told |= {n: _unkept(lines[n], reason, told.get(n)) for n, reason in reasons.items()}
    return tuple(told[n] for n in range(len(lines)))


def _instead(
    s: Session,
    lines: Sequence[Evidence],
    reasons: Mapping[int, str],
    rows: Mapping[str, Any],
    now_us: int,
) -> dict[int, Evidence]:
    """The coordinator's lines for those that can't be kept, where they speak for live attempts; by place."""
    places = {lines[n].attempt_id: n for n in reasons if _speaks(lines[n], rows.get(lines[n].attempt_id))}
    why = {name: f"its line can't be kept: {reasons[n]}" for name, n in places.items()}
    found = lines_instead(s, {name: rows[name] for name in places}, why, Verdict.ERROR, now_us)
    return {places[name]: line for name, line in found.items()}


def _unkept(line: Evidence, reason: str, instead: Outcome | None) -> Outcome:
    """What a line did that can't be kept: what the one in its place did, or nothing."""
    nothing = Outcome(line.evidence_id, False, None, False, line.verdict)
    return replace(instead or nothing, note=reason, kept=False)


def _take_in(s: Session, lines: Sequence[Evidence], rows: dict[str, Any], now_us: int) -> tuple[Outcome, ...]:
    """As complete_many, of lines that fit."""
    there = known(s, [line.evidence_id for line in lines])
    crashes = {line.attempt_id for line in lines if line.verdict is Verdict.CRASH}
    jobs = Jobs(
        rows=rows,
        seen=set(there),
        spoken={name for name, row in rows.items() if row.state == "done"},
        done={row.job_id for row in rows.values() if row.job_state == "done"},
        crashed=_crashed(
            s, {row.job_id for row in rows.values() if row.crashes or row.attempt_id in crashes}
        ),
    )
    outcomes = [jobs.take(line) for line in lines]
    entries = [_entry(line, outcome, rows) for line, outcome in zip(lines, outcomes, strict=True)]
    append(s, entries, now_us, there)
    ended = {e.attempt_id: rows[e.attempt_id] for e in entries if e.attempt_id}
    was_live = [row for row in ended.values() if row.state in LIVE_STATES]
    end_attempts(s, was_live, "done", "", now_us)
    decide(s, [(o.job_id, o.verdict, o.evidence_id) for o in outcomes if o.job_id and o.decided], now_us)
    untold = [o.job_id for o in outcomes if o.decided and o.verdict in UNTOLD]
    if untold:
        keep_first(s, job.c.id.in_(untold), now_us)
    _count_crashes(s, {job_id: len(jobs.crashed[job_id]) for job_id in jobs.counted})
    requeue(s, [row for row in was_live if row.job_id not in jobs.done], now_us, avoid=True)
    _confirm(s, [o.job_id for o in outcomes if o.decided and o.job_id and jobs.crashed[o.job_id]], jobs.late)
    return tuple(outcomes)


def _entry(line: Evidence, outcome: Outcome, rows: Mapping[str, Any]) -> Entry:
    if outcome.job_id is None:
        return Entry(line, None, folded=True)
    return Entry(line, line.attempt_id, outcome.decided, rows[line.attempt_id].leased_us)


def _speaks(line: Evidence, row: Any) -> bool:
    """Whether a line is what a live attempt was to bring."""
    return row is not None and not _stranger(line, row) and row.state in LIVE_STATES


def _stranger(line: Evidence, row: Any) -> str:
    """Why a line can't speak for the attempt that it names; empty if it can."""
    if row is None:
        return f"no attempt {line.attempt_id!r} here"
    if same_work(line) == (row.case_id, row.backend, row.source_digest) and line.device.slug == row.device:
        return ""
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


def _crashed(s: Session, job_ids: set[int]) -> defaultdict[int, set[str]]:
    """The attempts of these jobs that a CRASH is stored of, by job."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    if job_ids:
        query = (
            sa.select(attempt.c.job_id, attempt.c.attempt_id)
            .join(evidence, evidence.c.attempt_id == attempt.c.attempt_id)
            .where(attempt.c.job_id.in_(job_ids), evidence.c.verdict == Verdict.CRASH.value)
            .where(~evidence.c.suspect)
        )
        for job_id, attempt_id in s.execute(query):
            found[job_id].add(attempt_id)
    return found


def _count_crashes(s: Session, counts: dict[int, int]) -> None:
    update_rows(s, job, ("id",), [{"id": job_id, "crashes": count} for job_id, count in counts.items()])


def _confirm(s: Session, job_ids: Sequence[int], late: set[str]) -> None:
    """Has the first crash of decided jobs count for its cell, too: where the second board crashed as well.

    So does one of the board that decided otherwise: there the cell is flaky. What crashed one board and not
    another stays with its job: one of the two boards is at fault, or both.
    """
    if not job_ids:
        return
    decider = evidence.alias()
    first = (
        sa.select(evidence.c.evidence_id, *(evidence.c[name] for name in CELL))
        .join(attempt, attempt.c.attempt_id == evidence.c.attempt_id)
        .join(job, job.c.id == attempt.c.job_id)
        .join(decider, decider.c.evidence_id == job.c.evidence_id)
        .where(
            job.c.id.in_(job_ids),
            evidence.c.verdict == Verdict.CRASH.value,
            sa.not_(evidence.c.folded),
            evidence.c.evidence_id.not_in(late),
            sa.or_(job.c.verdict == Verdict.CRASH.value, evidence.c.device == decider.c.device),
        )
    )
    found = s.execute(first).all()
    if found:
        counts = sa.update(evidence).where(evidence.c.evidence_id.in_([row.evidence_id for row in found]))
        s.execute(counts.values(folded=True))
        fold_cells(s, {CellKey(*row[1:]) for row in found})
