"""What a million rows cost the queue: leases among them, and status and matrix over them; takes many minutes.

FARM_BENCH_ROWS scales the million down, FARM_BENCH_POSTGRES as in `queue`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.queue import BATCH, TURNS, databases, distinct, submit
from db import campaign, capability, tables
from db.bulk import insert_rows
from db.session import Database, Session
from kernels.evidence import Verdict
from tests.db.making import Farm, line

ROWS = int(os.environ.get("FARM_BENCH_ROWS", "1000000"))
SMALL = 10_000
LEASES = 300
CHUNK = 10_000


def main() -> None:
    for _, database in databases():
        measure(database)


def measure(database: Database) -> None:
    farm = Farm(database)
    small = leases(farm, SMALL)
    print(f"  lease of {BATCH} among {SMALL:,} jobs: {told(small)}", flush=True)
    large = leases(farm, ROWS)
    print(f"  lease of {BATCH} among {ROWS:,} jobs: {told(large)} (goal 10 ms)", flush=True)
    ratio = statistics.median(large) / statistics.median(small)
    print(f"  ratio of medians {ratio:.2f} (1 is flat)", flush=True)
    fill(farm, ROWS)
    for what, read in (("status", campaign.campaigns), ("matrix", capability.cells)):
        median_ms = statistics.median(reads(database, read)) * 1e3
        print(f"  {what}, {ROWS:,} jobs and lines: {median_ms:.0f} ms (goal 500)", flush=True)


def told(seconds: Sequence[float]) -> str:
    p99 = statistics.quantiles(seconds, n=100)[98]
    return f"median {statistics.median(seconds) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"


def leases(farm: Farm, rows: int) -> list[float]:
    """Seconds of each lease among so many waiting jobs of many campaigns, commit and sync included."""
    made = [submit(farm, min(SMALL, rows)) for _ in range(max(1, rows // SMALL))]
    seconds = []
    for _ in range(LEASES):
        began = time.perf_counter()
        found = farm.lease(BATCH)
        seconds.append(time.perf_counter() - began)
        assert len(found) == BATCH
    with farm.database.writing() as s:
        for campaign_id in made:
            campaign.cancel(s, campaign_id, 3)
        campaign.close_finished(s, 3)
    return seconds


def fill(farm: Farm, rows: int) -> None:
    """That many lines of evidence, of the cells that there are."""
    (stored,) = farm.complete(line(distinct(1)[0], Verdict.PASS))
    with farm.database.writing() as s:
        table = tables.evidence
        (found,) = s.execute(table.select().where(table.c.evidence_id == stored.evidence_id)).mappings()
        for first in range(0, rows, CHUNK):
            insert_rows(
                s, table, [dict(found) | {"evidence_id": f"e{n}"} for n in range(first, first + CHUNK)]
            )


def reads(database: Database, read: Callable[[Session], Any]) -> Iterator[float]:
    for _ in range(TURNS):
        began = time.perf_counter()
        with database.reading() as s:
            read(s)
        yield time.perf_counter() - began
