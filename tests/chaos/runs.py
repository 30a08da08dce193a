"""A whole run: places, programs, troubles, end and audit, for the short test and the long script alike."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from db import device
from db.session import open_database
from tests.chaos import audit
from tests.chaos.arms import ARMS, CHEATS, LIARS, MACHINES, Arm
from tests.chaos.places import Disk, Server
from tests.chaos.story import GLANCE_S, Pace, Story
from tests.chaos.world import World
from workers.sim.plan import Shares, SimPlan

MB_A_JOB = 0.03  # of a SQLite file with its log, evidence being most of it


@dataclass(frozen=True)
class Run:
    """What is hurt, where its rows lie, and for how long."""

    arm: str  # a name of ARMS
    database: str  # sqlite or postgresql
    pace: Pace
    seed: int = 0
    writers: int = 0
    only: tuple[str, ...] = ()  # names of actions; empty takes all
    shares: Shares = field(default_factory=Shares)
    quiet: bool = False


@dataclass(frozen=True)
class Report:
    """What was done and what came of it."""

    broken: tuple[str, ...]  # rules of the audit
    refused: tuple[str, ...]  # what this machine doesn't allow
    done: dict[str, int]  # actions by name
    figures: dict[str, int]
    restarts: int
    seconds: float
    said: tuple[str, ...]


def play(run: Run, folder: Path) -> Report:
    """Runs it; story.Stuck where the campaigns don't end."""
    plan = SimPlan(run.seed, run.shares, LIARS, CHEATS)
    with ExitStack() as stack:
        server, disk, refused = places(run, folder, stack)
        url = server.url if server else f"sqlite:///{folder}/disk/farm.db"
        open_database(url).close()
        world = World(folder / "machines", plan, url, run.quiet, refused=refused)
        stack.callback(lambda: world.kill(world.left(0.0)))
        rng = random.Random(run.seed)
        arm = Arm(world, rng, server, disk, run.writers)
        actions = [one for one in ARMS[run.arm](arm, stack) if not run.only or one.name in run.only]
        for line in refused:
            world.say(f"SKIPPED, loudly: {line}")
        await_boards(url, world)
        with closing(Story(world, actions, run.pace, rng)) as story:
            story.run()
            arm.await_writers()
        orphans = world.end()
        broken = audit.audit(url, plan, orphans, arm.wrote)
        restarts = sum(program.starts - 1 for program in world.programs.values())
        found = audit.figures(url)
        done = dict(sorted(story.counts.items()))
        return Report(tuple(broken), tuple(refused), done, found, restarts, story.ended_s, tuple(world.said))


def await_boards(url: str, world: World, seconds: float = 240.0) -> None:
    """Returns when every class is there: a campaign ends with the jobs of those that it saw."""
    machines = [name for name in world.programs if name in MACHINES]
    wanted = {slug for name in machines for slug in MACHINES[name].split(",")} - set(CHEATS)
    until = time.monotonic() + seconds
    while missing := wanted - slugs(url):
        assert time.monotonic() < until, f"not there within {seconds:g} s: {', '.join(sorted(missing))}"
        world.tend()
        time.sleep(GLANCE_S)
    world.say(f"{', '.join(sorted(wanted))} are at work")


def slugs(url: str) -> set[str]:
    with closing(open_database(url)) as database, database.reading() as s:
        return {row.device.slug for row in device.devices(s)}


def places(run: Run, folder: Path, stack: ExitStack) -> tuple[Server | None, Disk | None, list[str]]:
    """The database's server or disk, and what can't be had here."""
    folder.mkdir(parents=True, exist_ok=True)
    if run.database == "postgresql":
        server = Server()
        stack.callback(server.close)
        return server, None, []
    disk = Disk(folder / "disk", int(64 + MB_A_JOB * run.pace.jobs))
    stack.callback(disk.close)
    return None, (None if disk.refused else disk), [disk.refused] if disk.refused else []


QUICK = (  # of a Ray farm: what doesn't have every machine join again
    "join a machine",
    "kill an agent",
    "kill the coordinator",
    "kill a raylet",
    "kill a machine",
    "kill PostgreSQL",
    "many writers",
)


def short(arm: str, database: str) -> Run:
    """A run that fits into a test."""
    pace = Pace(seconds=36.0, jobs=1_200, every_s=5.0, patience_s=240.0)
    return Run(arm, database, pace, writers=4, only=QUICK if arm == "ray" else (), quiet=True)
