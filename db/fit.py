"""What a line and a worker may say so that every database can keep it: a server refuses what a file takes.

unfit(line) -> str                                  # why it can't be kept, in one line; empty if it can
unfit_worker(worker_id, backends, device) -> str
is_text(text) -> bool
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter, le
from typing import Any

import sqlalchemy as sa

from db.tables import attempt, evidence
from db.tables import device as device_table
from kernels.benchmark import Benchmark
from kernels.evidence import Comparison, Evidence
from kernels.model import Device

SHOWN = 24  # characters of a value
SMALL = 1 << 31
LATEST_US = 253_402_300_799_000_000  # the end of the year 9999: no calendar goes further


def most(column: sa.Column[Any]) -> int:
    """How many characters a column holds, or bits beside the sign."""
    if isinstance(column.type, sa.Integer):
        return 63 if isinstance(column.type, sa.BigInteger) else 31
    return getattr(column.type, "length", None) or sys.maxsize


DEVICE = {f"device.{name}": most(device_table.c[name]) for name in ("slug", "device_class", "name", "uuid")}
CASE = {f"case.{name}": most(evidence.c[name]) for name in ("op", "kernel", "kind")}
COMPARISON = {f"comparison.{name}": most(evidence.c[name]) for name in ("judge", "positions", "bad")}
OWN = {
    name: most(evidence.c[name])
    for name in (
        "evidence_id", "case_id", "attempt_id", "backend", "source_digest", "inputs_digest", "output_digest",
        "reason", "repeats", "started_us", "finished_us", "origin", "trust",
    )
}  # fmt: skip
LINE = OWN | CASE | DEVICE  # by the path of a line's field
of_line, of_comparison = attrgetter(*LINE), attrgetter(*COMPARISON)
COUNTS = ("repeats", "started_us", "finished_us")
TEXTS = {path: limit for path, limit in LINE.items() if path not in COUNTS}
texts_of, limits_of_texts = attrgetter(*TEXTS), tuple(TEXTS.values())
WORKER_ID, BACKEND = most(attempt.c.worker_id), most(evidence.c.backend)


def unfit(line: Evidence) -> str:
    """Why no database can keep a line; empty if every one can."""
    return "" if is_plain(line) else first_misfit(line)


def first_misfit(line: Evidence) -> str:
    """As `unfit`, field by field."""
    return next(filter(None, chain(_of_values(line), _of_times(line), _of_case(line))), "")


def is_plain(line: Evidence) -> bool:
    """Whether a line fits at a glance, as most do: short ASCII, counts of 31 bits, no build, its own case."""
    texts, compared = texts_of(line), line.comparison
    together = "".join(texts)
    return (
        together.isascii()
        and "\0" not in together
        and all(map(le, map(len, texts), limits_of_texts))
        and 0 <= line.repeats < SMALL
        and 0 <= line.started_us < LATEST_US
        and 0 <= line.finished_us < LATEST_US
        and (compared is None or _is_plain_comparison(compared))
        and not line.builds
        and line.benchmark is None
        and line.case_id == line.case.id
    )


def _is_plain_comparison(found: Comparison) -> bool:
    small = 0 <= found.positions < SMALL and 0 <= found.bad < SMALL
    return small and len(found.judge) <= COMPARISON["comparison.judge"] and is_text(found.judge)


def unfit_worker(worker_id: str, backends: Iterable[str], device: Device) -> str:
    """Why no database can keep what a worker says of itself; empty if every one can."""
    names = ((name, getattr(device, name.removeprefix("device.")), limit) for name, limit in DEVICE.items())
    said = chain(
        [("worker_id", worker_id, WORKER_ID)], (("backends", one, BACKEND) for one in backends), names
    )
    return next(filter(None, (_misfit(*one) for one in said)), "")


def is_text(text: str) -> bool:
    """Whether every database keeps a text as it is."""
    if "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _misfit(name: str, value: str | int, limit: int) -> str:
    """Why a value can't be kept; empty if it can."""
    if isinstance(value, int):
        fits = -1 << limit <= value < 1 << limit
        return "" if fits else f"{name} {str(value)[:SHOWN]} needs more than {limit} bits"
    if len(value) > limit:
        return f"{name} {value[:SHOWN]!r} has {len(value)} characters, {limit} are the most; shorten it"
    return (
        "" if is_text(value) else f"{name} {value[:SHOWN]!r} has a NUL or half a surrogate pair; take it out"
    )


def _of_values(line: Evidence) -> Iterator[str]:
    yield from map(_misfit, LINE, of_line(line), LINE.values())
    if line.comparison:
        yield from map(_misfit, COMPARISON, of_comparison(line), COMPARISON.values())
    if line.builds:
        yield _misfit("builds: notes", ",".join(line.notes), most(evidence.c.notes))
    if line.benchmark:
        yield from _of_benchmark(line.benchmark)


def _of_benchmark(found: Benchmark) -> Iterator[str]:
    yield _misfit("benchmark.nbytes", found.nbytes, 63)
    yield _misfit("benchmark.refused", found.refused, sys.maxsize)
    if not math.isfinite(found.spread.median_us):
        yield f"benchmark.spread.median_us {found.spread.median_us} is no time"


def _of_times(line: Evidence) -> Iterator[str]:
    for name, us in (("started_us", line.started_us), ("finished_us", line.finished_us)):
        if abs(us) > LATEST_US:
            yield f"{name} {us} is behind the year 9999; microseconds since 1970 are wanted"


def _of_case(line: Evidence) -> Iterator[str]:
    """A line whose case isn't the one that it names would be folded into another's cell."""
    if line.case_id != (own := line.case.id):
        yield f"case_id {line.case_id[:12]!r} isn't its case's, {own[:12]!r}; the line was changed"
