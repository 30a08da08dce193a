"""The lines that workers sent: append-only, stored whole, with columns for what is filtered and folded.

get(s, evidence_id) · of_case(s, case_id) · of_cell(s, key) · of_job(s, job_id)   # Stored, newest first
import_lines(s, lines, now_us) -> ImportReport(new, repeated)     # a bundle: trust `imported`, cells folded
append(s, entries, now_us) -> set of new ids                      # what queue and import are made of
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

import sqlalchemy as sa

from db import benchmark
from db.bulk import insert_rows
from db.capability import finding_in
from db.cases import store_cases
from db.cell import CellKey
from db.device import see_all
from db.fit import unfit
from db.refold import before, refold
from db.session import Session
from db.tables import CELL, attempt, cases
from db.tables import evidence as table
from kernels import codec
from kernels.errors import FarmError
from kernels.evidence import Comparison, Evidence

SKEW_US = 60_000_000  # between two clocks that are both right enough
IMPORT_BATCH = 500  # lines; a statement takes only so many parameters
KNOWN = sa.select(table.c.evidence_id).where(table.c.evidence_id.in_(sa.bindparam("ids", expanding=True)))


class UnfitLine(FarmError):
    """A line that no database can hold; the message names it and says why."""


@dataclass(frozen=True)
class Entry:
    """A line on its way into the table."""

    line: Evidence
    attempt_id: str | None  # None where no attempt of this database is known for it
    folded: bool  # whether it counts for its cell
    leased_us: int = 0  # when its attempt was, by the coordinator's clock; 0 where that isn't known

    def dated(self, now_us: int) -> tuple[int, int]:
        """When it began and ended, as it counts: not before its attempt was leased, nor after it came.

        Which line is the newest decides about a cell, and a worker's clock may be years off.
        """
        ended_us = self.line.finished_us
        if ended_us > now_us + SKEW_US:
            ended_us = now_us
        elif ended_us < self.leased_us - SKEW_US:
            ended_us = self.leased_us
        return max(0, self.line.started_us + ended_us - self.line.finished_us), ended_us


@dataclass(frozen=True)
class Stored:
    """A line as it is kept."""

    line: Evidence
    attempt_id: str | None
    folded: bool
    copies: int  # how often it arrived
    stored_us: int


@dataclass(frozen=True)
class ImportReport:
    """What a bundle brought."""

    new: int
    repeated: int  # lines that were here already


def key_of(line: Evidence) -> CellKey:
    """The cell that a line belongs to."""
    case, place = line.case, (line.device.slug, line.backend)
    return CellKey(*place, case.op, case.kernel, case.kind, case.build.value, line.source_digest)


def append(s: Session, entries: Sequence[Entry], now_us: int, there: Set[str] | None = None) -> set[str]:
    """Stores lines with their cases and devices and folds their cells; returns the ids that were new.

    A line that is here already is counted and changes nothing else. `there` are the ids of those, where the
    caller has asked.
    """
    arrived = Counter(entry.line.evidence_id for entry in entries)
    there = known(s, arrived) if there is None else there
    fresh = {e.line.evidence_id: e for e in reversed(entries) if e.line.evidence_id not in there}
    new = list(reversed(fresh.values()))
    again = arrived - Counter(fresh.keys())
    if new:
        # An attempt's case is stored: its job is planned with it.
        _store_cases(s, [entry.line for entry in new if entry.attempt_id is None])
        rows = [_row(entry, now_us) for entry in new]
        ended = [entry.dated(now_us)[1] for entry in new]
        see_all(s, zip((entry.line.device for entry in new), ended, strict=True))
        added = [finding_in(row) for row in rows if row["folded"]]
        was = before(s, (one.key for one in added), {one.case_id for one in added})
        insert_rows(s, table, rows)
        timed = zip(new, ended, strict=True)
        benchmark.put(s, [(e.line, key_of(e.line), end_us) for e, end_us in timed if e.line.benchmark])
        refold(s, was, added)
    if again:
        more = sa.update(table).where(table.c.evidence_id == sa.bindparam("id"))
        more = more.values(copies=table.c.copies + sa.bindparam("more"))
        s.execute(more, [{"id": evidence_id, "more": count} for evidence_id, count in again.items()])
    return set(fresh)


def known(s: Session, evidence_ids: Iterable[str]) -> set[str]:
    """Those of the ids that are stored."""
    return set(s.execute(KNOWN, {"ids": list(evidence_ids)}).scalars())


def import_lines(s: Session, lines: Iterable[Evidence], now_us: int) -> ImportReport:
    """Takes a bundle's lines in, as imported whatever they say of themselves."""
    report = ImportReport(0, 0)
    arriving = iter(lines)
    while batch := list(islice(arriving, IMPORT_BATCH)):
        new = _import_batch(s, batch, now_us)
        report = ImportReport(report.new + new, report.repeated + len(batch) - new)
    return report


def _import_batch(s: Session, lines: Sequence[Evidence], now_us: int) -> int:
    for line in lines:
        _demand_fit(line)
    ours = _attempts_here(s, lines)
    entries = [
        Entry(
            replace(line, origin="bundle", trust="imported"),
            line.attempt_id if line.attempt_id in ours else None,
            folded=True,
        )
        for line in lines
    ]
    return len(append(s, entries, now_us))


def get(s: Session, evidence_id: str) -> Stored | None:
    """One line; None where it isn't here."""
    return next(iter(_stored(s, table.c.evidence_id == evidence_id)), None)


def of_case(s: Session, wanted: str) -> tuple[Stored, ...]:
    """Every line about a case id, newest first."""
    return _stored(s, table.c.case_id == wanted)


def of_cell(s: Session, key: CellKey, limit: int | None = None) -> tuple[Stored, ...]:
    """Every line of a cell, newest first; with a limit, no more than that."""
    return _stored(s, sa.and_(*(table.c[name] == getattr(key, name) for name in CELL)), limit)


def of_job(s: Session, job_id: int) -> tuple[Stored, ...]:
    """Every line of a job's attempts, late and lost ones too, newest first."""
    mine = sa.select(attempt.c.attempt_id).where(attempt.c.job_id == job_id)
    return _stored(s, table.c.attempt_id.in_(mine))


def _stored(s: Session, where: sa.ColumnElement[bool], limit: int | None = None) -> tuple[Stored, ...]:
    query = (
        sa.select(table.c.line_json, table.c.attempt_id, table.c.folded, table.c.copies, table.c.stored_us)
        .where(where)
        .order_by(table.c.finished_us.desc(), table.c.evidence_id.desc())
        .limit(limit)
    )
    return tuple(Stored(codec.decode(Evidence, json.loads(text)), *rest) for text, *rest in s.execute(query))


def _demand_fit(line: Evidence) -> None:
    if reason := unfit(line):
        raise UnfitLine(f"evidence {line.evidence_id[:36]!r} can't be kept: {reason}")


def _attempts_here(s: Session, lines: Sequence[Evidence]) -> set[str]:
    ids = [line.attempt_id for line in lines if line.attempt_id]
    return set(s.execute(sa.select(attempt.c.attempt_id).where(attempt.c.attempt_id.in_(ids))).scalars())


def _store_cases(s: Session, lines: Sequence[Evidence]) -> None:
    """Stores the cases that aren't here."""
    if not lines:
        return
    ids = {line.case_id for line in lines}
    there = set(s.execute(sa.select(cases.c.case_id).where(cases.c.case_id.in_(ids))).scalars())
    store_cases(s, [line.case for line in lines if line.case_id not in there])


def _row(entry: Entry, now_us: int) -> dict[str, object]:
    line = entry.line
    key = key_of(line)
    started_us, finished_us = entry.dated(now_us)
    return {
        **key._asdict(),
        **_figures(line.comparison),
        "evidence_id": line.evidence_id,
        "case_id": line.case_id,
        "attempt_id": entry.attempt_id,
        "device_class": line.device.device_class,
        "fingerprint_digest": line.device.fingerprint_digest,
        "inputs_digest": line.inputs_digest,
        "output_digest": line.output_digest,
        "verdict": line.verdict.value,
        "reason": line.reason,
        "rule": line.rule.value,
        "rule_verdict": line.rule_verdict.value if line.rule_verdict else None,
        "repeats": line.repeats,
        "started_us": started_us,
        "finished_us": finished_us,
        "stored_us": now_us,
        "origin": line.origin,
        "trust": line.trust,
        "folded": entry.folded,
        "copies": 1,
        "suspect": False,
        "build_digest": line.build_digest,
        "notes": ",".join(line.notes),
        "line_json": codec.canonical(line),
    }


def _figures(found: Comparison | None) -> dict[str, object]:
    """The columns of a comparison; null where nothing was compared."""
    return {
        "judge": found and found.judge,
        "nan_positions_equal": found and found.nan_positions_equal,
        "bit_exact": found and found.bit_exact,
        "twin_agrees": found and found.twin_agrees,
        "positions": found.positions if found else 0,
        "bad": found.bad if found else 0,
        "bound_ratio": found and _orderable(found.bound_ratio),
        "relative_ratio": found and _orderable(found.relative_ratio),
        "nmse": found and _orderable(found.nmse),
    }


def _orderable(ratio: float) -> float:
    """SQLite keeps a NaN as null; an error that isn't a number is larger than every one that is."""
    return math.inf if math.isnan(ratio) else float(ratio)
