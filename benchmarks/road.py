"""The whole road without work: two agents, no-op cases, lease, spool, evidence, fold; beside raw Ray calls.

The agents are the farm's own and run a slot that passes at once. FARM_BENCH_JOBS scales a turn down.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.queue import distinct
from db import campaign
from db.job import Target
from db.session import Database, open_database
from farm.campaign import Order
from farm.cluster import private, ray_home
from farm.coordinator import Coordinator
from kernels import catalog, codec
from kernels.catalog import Selection
from kernels.evidence import Comparison, Evidence, Rule, Verdict
from tests.db.making import BOARD, HOST, planned
from tests.postgres import started
from workers.agent import BATCH, Agent
from workers.protocol import Hello
from workers.request import Request
from workers.runner import ended
from workers.spool import Spool

JOBS = int(os.environ.get("FARM_BENCH_JOBS", "5120"))
TURNS = 3
AGENTS = 2
GOALS = {"sqlite": 8_000, "postgresql": 3_000}
COMPARED = Comparison(Verdict.PASS, "", "oracle", 10, 0, 0.5, 0.25, True, 1e-9, True, True, None)
SELECTION = codec.canonical(Order(Selection(), ("host",)))


class Passes:
    """A slot that runs nothing and says PASS."""

    def start(self) -> None: ...

    def run(self, request: Request, deadline_s: float) -> Evidence:
        now_us = time.time_ns() // 1000
        line = ended(request, Verdict.PASS, "", now_us - 1, now_us)
        return replace(line, comparison=COMPARED, inputs_digest=request.inputs_digest)

    def close(self) -> None: ...


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder, started() as postgres:
        postgres.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")  # synced, as in use
        urls = {"sqlite": f"sqlite:///{folder}/farm.db", "postgresql": postgres.empty()}
        for name, url in urls.items():
            told(f"{name}, one process", rates(url, Path(folder), threads), GOALS[name])
        with private_ray(Path(folder)) as ray:  # what is printed meanwhile goes to Ray's log
            calls = [raw_calls(ray) for _ in range(TURNS)]
            found = {
                name: rates(url, Path(folder), lambda *of: actors(ray, *of)) for name, url in urls.items()
            }
        raw = told(f"raw Ray calls of {BATCH}", calls, 0)
        for name, figures in found.items():
            ours = told(f"{name}, actors", figures, GOALS[name])
            print(f"  {ours / raw:.2f} of raw Ray calls (goal 0.2 on sqlite)", flush=True)


def told(what: str, found: list[float], goal: int) -> float:
    median = statistics.median(found)
    wanted = f" (goal {goal:,})" if goal else ""
    print(f"{what}: {median:,.0f} jobs a second, {min(found):,.0f} to {max(found):,.0f}{wanted}", flush=True)
    return median


def rates(url: str, folder: Path, run: Callable[[str, Path], float]) -> list[float]:
    """Jobs a second of a few turns, after one that makes the cells and isn't counted."""
    database = open_database(url)
    found = []
    for _ in range(1 + TURNS):
        submit(database)
        found.append(JOBS / run(url, folder))
        with database.reading() as s:
            assert not campaign.open_campaigns(s)
    database.close()
    return found[1:]


def submit(database: Database, count: int = JOBS, target: Target = HOST) -> int:
    with database.writing() as s:
        words: dict[str, Any] = {"selection": SELECTION, "rule": Rule.BOUND, "now_us": time.time_ns() // 1000}
        return campaign.create(s, planned=planned(distinct(count)), targets=[target], **words)


def hello(number: int) -> Hello:
    board = replace(BOARD, slug=f"cpu-{number}", uuid=f"uuid-{number}", slots=1)
    return Hello(str(uuid.uuid4()), board, ("host",), catalog.digest())


def threads(url: str, folder: Path) -> float:
    """Seconds of agents and coordinator in one process, as `--local` has them."""
    coordinator = Coordinator(open_database(url), catalog.digest())
    agents = [threading.Thread(target=work, args=(coordinator, folder, n)) for n in range(AGENTS)]
    began = time.perf_counter()
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    seconds = time.perf_counter() - began
    coordinator.close()
    return seconds


def work(coordinator: Any, folder: Path, number: int) -> None:
    """One agent till nothing is left."""
    with_spool = Spool(folder / f"spool-{number}.jsonl")
    try:
        Agent(coordinator, hello(number), with_spool, Passes).run()
    finally:
        with_spool.close()


class RemoteAgent:
    """One agent in a process of its own."""

    def ready(self) -> None:
        """What a worker's start costs, and no job."""
        catalog.digest()

    def run(self, coordinator: Any, folder: str, number: int) -> None:
        # Imported here: the module imports ray.
        from workers.json_calls import Caller
        from workers.ray_agent import carrier

        work(Caller(carrier(coordinator)), Path(folder), number)


class Echo:
    """What a raw Ray call is made to."""

    def take(self, items: list[int]) -> list[int]:
        return items


class Asker:
    def run(self, echo: Any, calls: int) -> None:
        import ray

        for _ in range(calls):
            ray.get(echo.take.remote(list(range(BATCH))))


def actors(ray: Any, url: str, folder: Path) -> float:
    """Seconds of coordinator and agents as actors, as a head has them, once their processes are there."""
    coordinator = private.start_coordinator(ray, url)
    agents = [ray.remote(RemoteAgent).options(num_cpus=0).remote() for _ in range(AGENTS)]
    ray.get([coordinator.tick.remote(), *(agent.ready.remote() for agent in agents)])
    began = time.perf_counter()
    ray.get([agent.run.remote(coordinator, str(folder), n) for n, agent in enumerate(agents)])
    seconds = time.perf_counter() - began
    for actor in (*agents, coordinator):
        with suppress(ValueError):
            ray.kill(actor)
    return seconds


def raw_calls(ray: Any, calls: int = 400) -> float:
    """Items a second of two actors that call a third in batches."""
    echo = ray.remote(Echo).options(num_cpus=0).remote()
    askers = [ray.remote(Asker).options(num_cpus=0).remote() for _ in range(AGENTS)]
    ray.get([asker.run.remote(echo, 10) for asker in askers])
    began = time.perf_counter()
    ray.get([asker.run.remote(echo, calls) for asker in askers])
    seconds = time.perf_counter() - began
    for actor in (*askers, echo):
        ray.kill(actor)
    return AGENTS * calls * BATCH / seconds


@contextmanager
def private_ray(home: Path) -> Iterator[Any]:
    with ray_home.ray_environment(ray_home.token_file(home), home), private.started(home) as ray:
        yield ray


if __name__ == "__main__":
    main()
