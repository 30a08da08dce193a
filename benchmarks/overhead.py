"""What the farm adds to a job: a new start where a worker is lost, an idle slot, cost beside the case's own.

The first two parts are simulated boards whose workers pull from a gateway, each part in processes of its own;
the last is campaigns as `--local` runs them, the numpy twin in a child process.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from rich.console import Console

from db import token
from db.session import Database, open_database
from db.tables import attempt, evidence, job
from farm import local
from farm.campaign import Order, plan, submit
from farm.progress import Bar
from kernels.catalog import Selection
from kernels.model import Build
from tests.chaos.arms import DAY_US, certificates_in, free_port, wait_for
from tests.chaos.runs import slugs
from tests.chaos.world import World
from workers.backends.sim import SLOTS
from workers.boards import Board
from workers.clock import wall_clock
from workers.log import writing_to
from workers.machine import cpu_device
from workers.sim.plan import SHARE_OF, Shares, SimPlan

SLOW = Shares(crash=0, hang=0, wrong=0, slow=SHARE_OF, lie=0, flaky=0)
CLASSES = ("sim-one", "sim-two", "sim-three")  # of two boards each, a worker a board
HELD_S = 8.0  # that a job takes whose worker is killed: longer than until its start is stored
CASE_S = 0.02
FOUND_S, IDLE_PERCENT, ADDED_MS = 10.0, 2.0, 1.0  # the goals
TURNS = 3
JOBS = 200  # of a turn
TOLD = ("device", "device_class", "verdict", "started_us", "finished_us")  # of a line


@dataclass(frozen=True)
class Turn:
    """A campaign: means of its jobs."""

    case_ms: float  # from a line's start to its finish
    gap_ms: float  # of a slot, between two cases

    @property
    def idle_percent(self) -> float:
        return 100 * self.gap_ms / (self.gap_ms + self.case_ms)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder:
        for part in (lost, idle, added):
            part(Path(folder))
            print(f"  the load is {os.getloadavg()[0]:.1f}", flush=True)


def told(what: str, found: Sequence[float], goal: float) -> None:
    spread = f"{min(found):.2f} to {max(found):.2f}"
    print(f"{what}: {statistics.median(found):.2f}, {spread} (goal {goal:g})", flush=True)


def lost(folder: Path) -> None:
    """From the SIGKILL of a job's worker to the job's start on the other board of its class."""
    boards = {f"{name}-{number}" for name in CLASSES for number in (0, 1)}
    killed: dict[str, tuple[str, int]] = {}  # class -> the board whose worker was killed, and when, in us
    with simulated(folder / "lost", HELD_S, boards) as (world, database):
        campaign_id = submitted(database, order("sim", 1))
        gateway = world.programs["gateway"]
        wait_for(lambda: kill_at_work(world, database, killed) == len(CLASSES), gateway)
        found = ended(world, database, campaign_id, len(CLASSES))
    again = [line for line in found if line.device != killed[line.device_class][0]]
    if len(again) != len(CLASSES):
        raise RuntimeError(f"{len(CLASSES)} jobs were to run on another board, {len(again)} did")
    seconds = [(line.started_us - killed[line.device_class][1]) / 1e6 for line in again]
    told("s from a worker's end to its job's start elsewhere", seconds, FOUND_S)


def kill_at_work(world: World, database: Database, killed: dict[str, tuple[str, int]]) -> int:
    """Kills the worker of each class that is seen to have started its job; how many are killed by now."""
    started = attempt.c.state == "started"
    query = sa.select(job.c.device_class, attempt.c.device).join(attempt).where(started)
    with database.reading() as s:
        found = s.execute(query).all()
    for name, slug in found:
        if name not in killed:
            pids = world.pids(slug)
            killed[name] = slug, wall_clock()
            world.kill(pids)
    return len(killed)


def idle(folder: Path) -> None:
    """Of a board's slots, while cases are there."""
    turns = []
    with simulated(folder / "idle", CASE_S, {"sim-large-0"}) as (world, database):
        for _ in range(TURNS):
            campaign_id = submitted(database, order("sim", JOBS))
            turns.append(turn(ended(world, database, campaign_id, JOBS), SLOTS))
    told("% of its time that a slot is idle", [one.idle_percent for one in turns], IDLE_PERCENT)


def added(folder: Path) -> None:
    """By the clock to a slot, and in processor time of agent and coordinator, which are one process here."""
    board = Board(replace(cpu_device(), slots=1), ("twin",))
    turns, used_ms = [], []
    with (
        patch.dict(os.environ, {"FARM_STATE": str(folder / "state")}),
        writing_to("campaign"),
        closing(open_database(f"sqlite:///{folder}/added.db")) as database,
        Bar(Console(quiet=True)) as bar,
    ):
        for _ in range(TURNS):
            campaign_id, used_s = submitted(database, order("twin", JOBS)), time.process_time()
            local.run(database, campaign_id, [board], bar)
            used_ms.append((time.process_time() - used_s) / JOBS * 1e3)
            turns.append(turn(lines(database, campaign_id), board.device.slots))
    told("ms between two cases in a child", [one.gap_ms for one in turns], ADDED_MS)
    told("ms of processor time a job", used_ms, ADDED_MS)


def turn(found: Sequence[Any], slots: int) -> Turn:
    """What lines say of slots that had work from the first start to the last finish."""
    if (passed := sum(line.verdict == "PASS" for line in found)) != JOBS:
        raise RuntimeError(f"{passed} of {JOBS} cases passed")
    whole_us = max(line.finished_us for line in found) - min(line.started_us for line in found)
    busy_us = sum(line.finished_us - line.started_us for line in found)
    one = Turn(busy_us / JOBS / 1e3, (slots * whole_us - busy_us) / JOBS / 1e3)
    print(f"  {JOBS} cases of {one.case_ms:.1f} ms, {one.gap_ms:.2f} between two of a slot", flush=True)
    return one


@contextmanager
def simulated(folder: Path, case_s: float, boards: set[str]) -> Iterator[tuple[World, Database]]:
    """A gateway and a worker for each board."""
    with gateway(folder, SimPlan(0, SLOW, slow_s=case_s)) as (world, database, pull):
        for slug in sorted(boards):
            world.add(slug, *pull, "--backend", "sim", boards=slug)
        wait_for(lambda: slugs(world.url) == boards, world.programs["gateway"])
        yield world, database


@contextmanager
def gateway(folder: Path, simulation: SimPlan) -> Iterator[tuple[World, Database, tuple[str, ...]]]:
    """A gateway, and what a worker's process is told to pull from it, less the backend.

    RuntimeError at the end where something of its programs is left.
    """
    world = World(folder, simulation, f"sqlite:///{folder}/farm.db", quiet=True)
    port, now_us, secret = free_port(), wall_clock(), folder / "bench.token"
    pem = certificates_in(folder / "tls")
    with closing(open_database(world.url)) as database:
        with database.writing() as s:
            made = token.create(s, "bench", devices="*", now_us=now_us, expires_us=now_us + DAY_US)
        secret.write_text(made)
        secret.chmod(0o600)
        pull = ("workers", "pull", f"https://127.0.0.1:{port}", "--token-file", str(secret))
        try:
            world.add(
                "gateway", "farm", "gateway", f"--port={port}", "--cert", pem["cert"], "--key", pem["key"]
            )
            yield world, database, (*pull, "--ca", pem["ca"])
        finally:
            left = world.end()
    if left:
        raise RuntimeError("; ".join(left))


def order(backend: str, jobs: int) -> Order:
    """So many jobs for every class, none of them a second look."""
    kernels, kinds, shapes, seeds = ("matvec/block",), ("Q4_K",), ("17x768",), tuple(range(jobs))
    selection = Selection((), kernels, kinds, shapes, seeds=seeds, builds=(Build.EXACT,))
    return Order(selection, (backend,), twice=0.0)


def submitted(database: Database, ordered: Order) -> int:
    return submit(database, ordered, plan(ordered), (), wall_clock()).campaign_id


def ended(world: World, database: Database, campaign_id: int, jobs: int) -> Sequence[Any]:
    """The lines of a campaign, once all are there."""
    wait_for(lambda: len(lines(database, campaign_id)) == jobs, world.programs["gateway"])
    return lines(database, campaign_id)


def lines(database: Database, campaign_id: int) -> Sequence[Any]:
    """What workers said of a campaign's jobs."""
    query = (
        sa.select(*(evidence.c[name] for name in TOLD))
        .join(attempt, attempt.c.attempt_id == evidence.c.attempt_id)
        .join(job, job.c.id == attempt.c.job_id)
        .where(job.c.campaign_id == campaign_id, evidence.c.origin == "worker")
    )
    with database.reading() as s:
        return s.execute(query).all()
