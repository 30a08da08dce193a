"""The queue without work: jobs a second from lease to folded evidence, and what a million rows cost.

FARM_BENCH_ROWS scales the million down; FARM_BENCH_POSTGRES is the URL of a database to be emptied, else the
tests' own server is started. Syncs of the disk are in every figure: the first line of each says what one is.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from db import campaign, capability, outcome, queue, tables
from db.bulk import insert_rows
from db.session import Database, Session, open_database
from farm.writer import Writer
from kernels.evidence import Rule, Verdict
from kernels.model import Case
from tests.db.making import HOST, WORKER, Farm, answer, case, line, planned
from tests.postgres import started

ROWS = int(os.environ.get("FARM_BENCH_ROWS", "1000000"))
GIVEN = os.environ.get("FARM_BENCH_POSTGRES", "")
SMALL = 10_000
BATCH = 32
CELLS = 120  # as many as the catalog has of one build
AGENTS = 8  # that call at once: the writer commits what waits together
TURNS = 5
JOBS_A_TURN = 2_560
LEASES = 300
CHUNK = 10_000
GOALS = {"sqlite": 8_000, "postgresql": 3_000}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder, started() as postgres:
        postgres.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")  # synced, as in use
        for url in (f"sqlite:///{folder}/farm.db", GIVEN or postgres.empty()):
            measure(open_database(url), Path(folder))


def measure(database: Database, folder: Path) -> None:
    name = "sqlite" if database.is_sqlite else "postgresql"
    print(f"{name}: one sync of the disk takes {statistics.median(syncs(folder)) * 1e3:.2f} ms", flush=True)
    farm = Farm(database)
    rate(farm, 0)  # warms caches, and makes the cells that later turns add to
    rates = [rate(farm, turn) for turn in range(1, TURNS + 1)]
    spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
    print(f"  {statistics.median(rates):,.0f} jobs a second, {spread} (goal {GOALS[name]:,})", flush=True)
    small, large = leases(farm, SMALL), leases(farm, ROWS)
    print(f"  lease of {BATCH} among {SMALL:,} jobs: {told(small)}")
    print(f"  lease of {BATCH} among {ROWS:,} jobs: {told(large)} (goal 10 ms)")
    print(
        f"  ratio of medians {statistics.median(large) / statistics.median(small):.2f} (1 is flat)",
        flush=True,
    )
    fill(farm, ROWS)
    for what, read in (("status", campaign.campaigns), ("matrix", capability.cells)):
        median_ms = statistics.median(reads(database, read)) * 1e3
        print(f"  {what}, {ROWS:,} jobs and lines: {median_ms:.0f} ms (goal 500)")
    database.close()


def syncs(folder: Path) -> Iterator[float]:
    """Seconds of a few small writes to where the file is."""
    with (folder / "sync").open("wb") as file:
        for _ in range(20):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            yield time.perf_counter() - began


def told(seconds: Sequence[float]) -> str:
    p99 = statistics.quantiles(seconds, n=100)[98]
    return f"median {statistics.median(seconds) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"


def distinct(count: int) -> list[Case]:
    """Cases spread over the cells."""
    return [replace(case(1 + n // CELLS), kinds=(f"K{n % CELLS}",)) for n in range(count)]


def submit(farm: Farm, count: int) -> int:
    with farm.database.writing() as s:
        words: dict[str, Any] = {"selection": "{}", "rule": Rule.BOUND, "now_us": 1}
        return campaign.create(s, planned=planned(distinct(count)), targets=[HOST], **words)


def rate(farm: Farm, turn: int) -> float:
    """Jobs a second through lease, start, complete, evidence and fold; every turn the same cases."""
    submit(farm, JOBS_A_TURN)
    writer = Writer(farm.database)
    agents = [threading.Thread(target=agent, args=(writer, farm.epoch, turn)) for _ in range(AGENTS)]
    began = time.perf_counter()
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    seconds = time.perf_counter() - began
    writer.close()
    return JOBS_A_TURN / seconds


def agent(writer: Writer, epoch: int, turn: int) -> None:
    """Takes batches until nothing is left, as a coordinator does it for one worker."""

    def complete(s: Session) -> None:
        outcome.complete_many(s, epoch, lines, 20)
        campaign.close_finished(s, 20)

    while found := writer.do(lambda s: queue.lease(s, epoch, WORKER, BATCH, 2)):
        ids = [leased.attempt_id for leased in found]
        writer.do(lambda s, ids=ids: queue.start(s, epoch, ids, 3))
        lines = [answer(leased, finished_us=100 + turn) for leased in found]
        writer.do(complete)


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
