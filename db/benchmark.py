"""The times that lines brought: append-only, kept when lines are pruned, in series of one case on one board.

put(s, [(line, key), …])                 # what evidence.append does with lines that were timed
of_campaign(s, campaign_id)              # those that its jobs were decided by
newest(s) -> tuple[Timed, …]             # of every case, board and source, the newest
all_series(s) -> {place: (Timed, …)}     # of one case on one board over all sources, oldest first
of_place(s, place) -> (Timed, …)         # valid ones of one cell of a board, oldest first
proved(s) -> {CellKey}                   # cells with a valid benchmark on a board: the rung `timed`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from db.bulk import insert_rows
from db.cell import RUNG_OF_PASS, CellKey
from db.session import Session
from db.tables import CELL, benchmark, evidence, fingerprint, job
from kernels import codec
from kernels.benchmark import Benchmark
from kernels.evidence import Evidence, Verdict

ON_BOARDS = tuple(name for name, rung in RUNG_OF_PASS.items() if rung == "device")
RUNG = "timed"  # of the cells that are proved
PLACE = tuple(name for name in CELL if name != "source_digest")


@dataclass(frozen=True)
class Timed:
    """One benchmark as it is kept."""

    key: CellKey
    device_class: str
    shape: str
    case_id: str
    evidence_id: str
    build_digest: str  # of the code that was timed; empty where not known
    finished_us: int
    benchmark: Benchmark
    driver: str = ""  # that the board had then; empty where its line is pruned, or told none


COLUMNS = (*CELL, "device_class", "shape", "case_id", "evidence_id", "build_digest", "finished_us")


def put(s: Session, timed: Iterable[tuple[Evidence, CellKey, int]]) -> None:
    """Stores the benchmarks of new lines that have one, each with its cell and when it ended."""
    insert_rows(s, benchmark, [_row(*one) for one in timed])


def newest(s: Session) -> tuple[Timed, ...]:
    """Of every case, board and source the newest, by name."""
    place = sa.func.row_number().over(
        partition_by=[benchmark.c[name] for name in (*CELL, "case_id")],
        order_by=[benchmark.c.finished_us.desc(), benchmark.c.evidence_id.desc()],
    )
    ranked = sa.select(*_columns(), place.label("place")).subquery()
    query = sa.select(ranked).where(ranked.c.place == 1)
    found = [_timed(row[:-1]) for row in s.execute(query)]
    drivers = _drivers(s)
    found = [replace(one, driver=drivers.get(one.evidence_id, "")) for one in found]
    return tuple(sorted(found, key=lambda one: (one.key, one.shape, one.case_id)))


def _drivers(s: Session) -> dict[str, str]:
    """Evidence id to its board's driver, of every benchmark whose line is still there."""
    query = sa.select(benchmark.c.evidence_id, fingerprint.c.device_json)
    query = query.join_from(benchmark, evidence, evidence.c.evidence_id == benchmark.c.evidence_id)
    query = query.join(fingerprint, fingerprint.c.digest == evidence.c.fingerprint_digest)
    return {evidence_id: _driver(device_json) for evidence_id, device_json in s.execute(query)}


@lru_cache(maxsize=4096)
def _driver(device_json: str) -> str:
    told: dict[str, str] = dict(json.loads(device_json)["fingerprint"])
    return told.get("driver", "")


def of_campaign(s: Session, campaign_id: int) -> tuple[Timed, ...]:
    """What the lines that decided a campaign's jobs brought, by name."""
    decided = sa.select(job.c.evidence_id).where(job.c.campaign_id == campaign_id)
    query = sa.select(*_columns()).where(benchmark.c.evidence_id.in_(decided))
    return tuple(sorted(map(_timed, s.execute(query)), key=lambda one: (one.key, one.shape, one.case_id)))


def all_series(s: Session) -> dict[tuple[str, ...], tuple[Timed, ...]]:
    """Valid benchmarks by place and case id, whatever the source, oldest first."""
    query = sa.select(*_columns()).where(benchmark.c.refused == "")
    found: dict[tuple[str, ...], list[Timed]] = {}
    for row in s.execute(query.order_by(benchmark.c.finished_us, benchmark.c.evidence_id)):
        one = _timed(row)
        found.setdefault((*(getattr(one.key, name) for name in PLACE), one.case_id), []).append(one)
    return {place: tuple(series) for place, series in found.items()}


def of_place(s: Session, place: tuple[str, ...]) -> tuple[Timed, ...]:
    """Valid benchmarks of one cell of a board, whatever the case and the source, oldest first."""
    mine = [benchmark.c[name] == value for name, value in zip(PLACE, place, strict=True)]
    query = sa.select(*_columns()).where(benchmark.c.refused == "", *mine)
    ordered = query.order_by(benchmark.c.finished_us, benchmark.c.evidence_id)
    return tuple(_timed(row) for row in s.execute(ordered))


def proved(s: Session) -> set[CellKey]:
    """The cells of which a board has a valid benchmark: a processor's times prove nothing about a GPU."""
    query = sa.select(*(benchmark.c[name] for name in CELL)).distinct()
    query = query.where(benchmark.c.refused == "", benchmark.c.backend.in_(ON_BOARDS))
    return {CellKey(*row) for row in s.execute(query)}


def _columns() -> list[sa.Column[Any]]:
    return [benchmark.c[name] for name in (*COLUMNS, "benchmark_json")]


def _timed(row: Any) -> Timed:
    values = dict(zip((*COLUMNS, "benchmark_json"), row, strict=True))
    key = CellKey(**{name: values.pop(name) for name in CELL})
    found = codec.decode(Benchmark, json.loads(values.pop("benchmark_json")))
    return Timed(key=key, benchmark=found, **values)


def _row(line: Evidence, key: CellKey, finished_us: int) -> dict[str, object]:
    found = line.benchmark
    assert found is not None  # asked before
    refused = found.refused or ("" if line.verdict is Verdict.PASS else f"the case was {line.verdict}")
    return {
        **{name: getattr(key, name) for name in CELL},
        "evidence_id": line.evidence_id,
        "case_id": line.case_id,
        "device_class": line.device.device_class,
        "shape": str(line.case.shape),
        "build_digest": line.build_digest,
        "finished_us": finished_us,
        "refused": refused,
        "median_us": float(found.spread.median_us),
        "gb_per_s": found.gb_per_s,
        "share_of_least": found.share_of_least,
        "benchmark_json": codec.canonical(found),
    }
