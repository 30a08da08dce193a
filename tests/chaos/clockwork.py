"""A coordinator whose clocks jump, with its agents as threads beside it: all but the network between them."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from db.epoch import StaleEpoch as Superseded
from db.session import Database, open_existing
from farm.campaign import Order, plan, submit
from farm.coordinator import Coordinator
from kernels import catalog
from kernels.catalog import Selection
from workers.agent import Agent
from workers.backends.sim import BACKEND as SIM
from workers.backends.sim import simulated_board
from workers.protocol import (
    Acknowledged,
    Ask,
    Complete,
    Fetch,
    Fetched,
    Hello,
    Leases,
    Renew,
    Renewed,
    Unreachable,
    Welcome,
)
from workers.sim.plan import SimPlan
from workers.sim.slot import SimSlot
from workers.spool import Spool

DAY_US = 86_400_000_000
HOUR_S = 3600.0
TTL_S = 1.0
EVERY = 5  # calls between two jumps


@dataclass
class Clocks:
    """What a coordinator takes for the time."""

    ahead_s: float = 0.0  # of the clock that decides when leases end
    ahead_us: int = 0  # of the one that dates what is stored

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.ahead_us


class Current:
    """Whoever coordinates now, as agents see it; one that another has followed is as good as dead.

    The clocks jump at every EVERY-th call, and at every fifth jump another coordinator takes over.
    """

    def __init__(self, follow: Callable[[], Coordinator], jump: Callable[[], None] | None) -> None:
        self.heads = [follow()]
        self.jumps = 0
        self._follow = follow
        self._jump = jump
        self._calls = itertools.count(1)
        self._lock = threading.Lock()

    def _ask(self, call: str, message: Any) -> Any:
        with self._lock:
            if self._jump and next(self._calls) % EVERY == 0:
                self._jump()
                self.jumps += 1
                if self.jumps % 5 == 0:
                    self.heads.append(self._follow())
            now = self.heads[-1]
        try:
            return getattr(now, call)(message)
        except Superseded:
            raise Unreachable("nobody is there") from None

    def hello(self, message: Hello) -> Welcome:
        return cast(Welcome, self._ask("hello", message))

    def lease(self, message: Ask) -> Leases:
        return cast(Leases, self._ask("lease", message))

    def renew(self, message: Renew) -> Renewed:
        return cast(Renewed, self._ask("renew", message))

    def complete(self, message: Complete) -> Acknowledged:
        return cast(Acknowledged, self._ask("complete", message))

    def fetch(self, message: Fetch) -> Fetched:
        return cast(Fetched, self._ask("fetch", message))


def campaign_of(database: Database, seeds: int) -> None:
    """Stores a small campaign for simulated boards."""
    selection = Selection(
        kernels=("matvec/block",),
        kinds=("Q4_0", "Q8_0"),
        shapes=("3x64", "5x32"),
        families=("ordinary",),
        seeds=tuple(range(seeds)),
    )
    order = Order(selection, ("sim",), "sim-*")
    submit(database, order, plan(order), (), time.time_ns() // 1000)


Jump = Callable[[Clocks], None]


def work(
    database: Database, folder: Path, made_of: SimPlan, slugs: Sequence[str], jump: Jump | None = None
) -> int:
    """Runs what is open to its end; how often the clocks jumped."""
    clocks = Clocks()

    def coordinator() -> Coordinator:
        own, words = open_existing(str(database.engine.url)), (clocks.monotonic, clocks.now_us)
        return Coordinator(own, catalog.digest(), clock=words[0], now_us=words[1], ttl_s=TTL_S)

    current = Current(coordinator, partial(jump, clocks) if jump else None)
    threads = [threading.Thread(target=run_agent, args=(current, folder, made_of, slug)) for slug in slugs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for head in current.heads:
        head.close()
    return current.jumps


def run_agent(current: Current, folder: Path, made_of: SimPlan, slug: str) -> None:
    hello = Hello(slug, simulated_board(slug), ("sim",), catalog.digest())
    with closing(Spool(folder / f"{slug}.jsonl")) as spool:
        Agent(current, hello, spool, lambda: SimSlot(made_of, SIM)).run()


def jumper(rng: random.Random) -> Jump:
    """Leaps of an hour ahead for leases, of days to and fro for dates."""

    def jump(clocks: Clocks) -> None:
        clocks.ahead_s += rng.choice((0.0, TTL_S, HOUR_S))
        clocks.ahead_us = rng.choice((-3, -1, 0, 1, 400)) * DAY_US

    return jump
