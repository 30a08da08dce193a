"""What a deployment waits for: `farm plan` over ten thousand stale cells, a head's start, a worker's way in.

A head starts in a folder of its own, Ray and all. A worker pulls from a gateway that is up, has compiled
nothing before, and is admitted when it has passed its exam.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from click.testing import CliRunner

from benchmarks.overhead import gateway, told
from db import capability, device, trust
from db.session import Database, open_database
from farm.cli import main as command_line
from farm.matrix import Row
from farm.targets import target_gpus
from kernels import catalog
from kernels.model import Device
from tests.chaos.arms import wait_for
from tests.chaos.world import ROOT
from tests.farm.grids import capability as cell_of
from workers.clock import wall_clock
from workers.machine import cpu_device
from workers.sim.plan import SimPlan

CELLS = 10_000
BUDGET = "100000"  # dollars: all that anybody offers is bought
TURNS = 3
PLAN_S, UP_S, ADMITTED_S = 2.0, 60.0, 30.0  # the goals


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as home:
        for part in (plan, up, admitted):
            folder = Path(home) / part.__name__
            folder.mkdir()
            part(folder)
            print(f"  the load is {os.getloadavg()[0]:.1f}", flush=True)


def plan(folder: Path) -> None:
    """The command's own function; and the command from the shell, which imports first."""
    words = ("plan", "--budget", BUDGET, "--json", "--db", stale_cells(folder))
    found = json.loads(by_function(*words))
    cells = sum(len(one["stale"]) for one in found["rentals"])
    print(f"  the plan rents for {cells:,} stale cells of {CELLS:,}; nobody offers {found['no_offer']}")
    told("s of farm plan", [seconds(lambda: by_function(*words)) for _ in range(TURNS)], PLAN_S)
    told("s of it from the shell", [seconds(lambda: farm(folder, *words)) for _ in range(TURNS)], PLAN_S)


def stale_cells(folder: Path) -> str:
    """A database in which the first target GPUs passed the catalog's cells with an older source."""
    url = f"sqlite:///{folder / 'farm.db'}"
    rows = [Row(name.op, name.kernel, name.kind, name.build.value) for name in catalog.cells()]
    left, database = CELLS, open_database(url)
    with database.writing() as s:
        for target in target_gpus():
            name = target.device_class
            board = Device(f"{name}-0", name, target.name, f"GPU-{name}", fingerprint=(("sm", target.sm),))
            mine = rows[:left]
            if mine:
                device.see(s, board, 1)
                made = [cell_of(device=board, backend="cuda", row=row, source="0" * 64) for row in mine]
                capability.write(s, made)
            left -= len(mine)
    database.close()
    if left:
        raise RuntimeError(f"all targets have {CELLS - left:,} cells together, not {CELLS:,}")
    return url


def up(folder: Path) -> None:
    """From the command's start to its return, by which the coordinator has answered."""
    took = []
    for number in range(TURNS):
        home = folder / str(number)
        home.mkdir()
        try:
            took.append(seconds(partial(farm, home, "up", "--host", "127.0.0.1", "--port", "0")))
        finally:
            farm(home, "down")
    told("s until a head is up", took, UP_S)


def admitted(folder: Path) -> None:
    """From the start of a worker's process to the end of its exam, on the host backend."""
    took, slug = [], cpu_device().slug
    with gateway(folder / "farm", SimPlan(0)) as (world, database, pull):
        wait_for(lambda: listens(pull[2]), world.programs["gateway"])
        for number in range(TURNS):
            began_us = wall_clock()
            worker = world.add(f"worker-{number}", *pull, "--backend", "host")
            wait_for(partial(passed_since, database, slug, began_us), worker)
            took.append((passed_us(database, slug) - began_us) / 1e6)
            assert worker.process is not None
            worker.process.terminate()
            worker.process.wait(timeout=60)
    told("s until a worker is admitted", took, ADMITTED_S)


def passed_us(database: Database, slug: str) -> int:
    """When a board last passed an exam; 0 for never."""
    with database.reading() as s:
        return max((one.examined_us or 0 for one in trust.standings(s) if one.device == slug), default=0)


def passed_since(database: Database, slug: str, us: int) -> bool:
    return passed_us(database, slug) > us


def listens(url: str) -> bool:
    """Whether somebody takes connections there."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5.0).close()
        return True
    return False


def seconds(turn: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    turn()
    return time.perf_counter() - began_s


def by_function(*words: str) -> str:
    said = CliRunner().invoke(command_line, words)
    if said.exit_code:
        raise RuntimeError(said.output)
    return said.stdout


def farm(folder: Path, *words: str) -> None:
    """The command in a folder of its own; RuntimeError has what it said where it failed."""
    own = {"FARM_STATE": str(folder / ".farm"), "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "farm", *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
