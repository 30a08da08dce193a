"""The queue without work: jobs a second from lease to folded evidence.

FARM_BENCH_POSTGRES is the URL of a database to be emptied, else the tests' own server is started. Syncs of
the disk are in every figure: the first line of each says what one is. A million rows: `queue_large`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from db import campaign, outcome, queue
from db.session import Database, Session, open_database
from farm.writer import Joint, Writer
from kernels.evidence import Evidence, Rule
from kernels.model import Case
from tests.db.making import HOST, WORKER, Farm, answer, case, planned
from tests.postgres import started

GIVEN = os.environ.get("FARM_BENCH_POSTGRES", "")
BATCH = 32
CELLS = 120  # as many as the catalog has of one build
AGENTS = 8  # that call at once: the writer commits what waits together
TURNS = 3
JOBS_A_TURN = 2_560
GOALS = {"sqlite": 8_000, "postgresql": 3_000}


def main() -> None:
    for name, database in databases():
        measure(name, database)


def databases() -> Iterator[tuple[str, Database]]:
    """Both, one after the other and empty; says what a sync of the disk takes."""
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder, started() as postgres:
        postgres.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")  # synced, as in use
        for url in (f"sqlite:///{folder}/farm.db", GIVEN or postgres.empty()):
            database = open_database(url)
            name = "sqlite" if database.is_sqlite else "postgresql"
            sync_ms = statistics.median(syncs(Path(folder))) * 1e3
            print(f"{name}: one sync of the disk takes {sync_ms:.2f} ms", flush=True)
            yield name, database
            database.close()


def measure(name: str, database: Database) -> None:
    farm = Farm(database)
    rate(farm, 0)  # warms caches, and makes the cells that later turns add to
    rates = []
    for turn in range(1, TURNS + 1):
        rates.append(rate(farm, turn))
        print(f"  turn {turn}: {rates[-1]:,.0f}", flush=True)
    spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
    print(f"  {statistics.median(rates):,.0f} jobs a second, {spread} (goal {GOALS[name]:,})", flush=True)


def syncs(folder: Path) -> Iterator[float]:
    """Seconds of a few small writes to where the file is."""
    with (folder / "sync").open("wb") as file:
        for _ in range(20):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            yield time.perf_counter() - began


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
    words = (writer, farm.epoch, turn, partial(complete, farm.epoch))
    agents = [threading.Thread(target=agent, args=words) for _ in range(AGENTS)]
    began = time.perf_counter()
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    seconds = time.perf_counter() - began
    writer.close()
    return JOBS_A_TURN / seconds


def complete(epoch: int, s: Session, sent: Sequence[Sequence[Evidence]]) -> Sequence[None]:
    """What several agents sent at once, as a coordinator takes it in."""
    outcome.complete_many(s, epoch, list(chain.from_iterable(sent)), 20)
    campaign.close_finished(s, 20)
    return [None] * len(sent)


def agent(writer: Writer, epoch: int, turn: int, done: Callable[..., Sequence[None]]) -> None:
    """Takes batches until nothing is left, as a coordinator does it for one worker."""
    while found := writer.do(lambda s: queue.lease(s, epoch, WORKER, BATCH, 2)):
        ids = [leased.attempt_id for leased in found]
        writer.do(lambda s, ids=ids: queue.start(s, epoch, ids, 3))
        lines = [answer(leased, finished_us=100 + turn) for leased in found]
        writer.do(Joint(done, lines))
