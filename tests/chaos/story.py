"""A run from its first campaign to its end: what is submitted when, what is hurt when, when it is over."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from db import campaign, device
from db.session import Database, open_database
from farm.campaign import Order, plan, submit
from kernels.catalog import Selection
from kernels.errors import FarmError
from kernels.model import Build
from tests.chaos.world import World

GLANCE_S = 0.5
KERNELS = ("matvec/block", "matvec/coalesced")
KINDS = ("Q4_0", "Q8_0", "Q4_K", "Q6_K")


@dataclass(frozen=True)
class Undo:
    """What ends a trouble, and when."""

    after_s: float
    do: Callable[[], None]


@dataclass(frozen=True)
class Action:
    """Something that is done to a running farm; it says what, or nothing where there was nothing to hurt."""

    name: str
    do: Callable[[], tuple[str, Undo | None]]
    most: int = 10**9  # times in a run


@dataclass(frozen=True)
class Pace:
    """How long a run hurts its farm, how often, and with how much work."""

    seconds: float
    jobs: int
    every_s: float  # between two actions
    patience_s: float  # for the last campaign to close, once nothing is hurt any more
    seeds: int = 4  # of the cases of a campaign


class Stuck(AssertionError):
    """Campaigns that don't end."""


@dataclass
class Story:
    """One run over one farm."""

    world: World
    actions: Sequence[Action]
    pace: Pace
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    ended_s: float = 0.0

    def __post_init__(self) -> None:
        self._database = open_database(self.world.url)
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._deck: deque[Action] = deque()
        self._seed = 0

    def run(self) -> None:
        """Hurts and works for the time given, then waits for the end; Stuck where there is none.

        The time is longer where something has not been done yet: a killed agent takes a while to come back.
        """
        began = time.monotonic()
        until, hurt_s = began + self.pace.seconds, began + self.pace.every_s
        while (now := time.monotonic()) < until or self.jobs < self.pace.jobs or self._undone():
            if now > until + self.pace.patience_s:
                raise Stuck(f"not done in {now - began:.0f} s: {', '.join(self._undone()) or 'submitting'}")
            self._step()
            share = min(1.0, (now - began) / max(self.pace.seconds, 1e-9))
            if self.jobs < self.pace.jobs and self.jobs <= share * self.pace.jobs:
                self._submit()
            if hurt_s <= now and (now < until or self._undone()):
                self._hurt()
                hurt_s = time.monotonic() + self.pace.every_s
        self.world.say(f"nothing is hurt any more; {self._told()}")
        self._wait_for_end()
        self.ended_s = time.monotonic() - began

    def close(self) -> None:
        for _, undo in self._due:
            undo()
        self._database.close()

    def _step(self) -> None:
        self.world.tend()
        now = time.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            self._due.remove(entry)
            entry[1]()
        time.sleep(GLANCE_S)

    def _hurt(self) -> None:
        """The next action; all of them come once before one comes again."""
        if not self._deck:
            left = [action for action in self.actions if self.counts[action.name] < action.most]
            self._deck.extend(self.rng.sample(left, len(left)))
        if not self._deck:
            return
        action = self._deck.popleft()
        said, undo = action.do()
        if not said:  # nothing there to hurt: later
            self._deck.append(action)
            return
        self.counts[action.name] += 1
        self.world.say(f"{action.name}: {said}")
        if undo:
            self._due.append((time.monotonic() + undo.after_s, undo.do))

    def _undone(self) -> list[str]:
        return [action.name for action in self.actions if not self.counts[action.name]]

    def _submit(self) -> None:
        """Stores another campaign, of cases that none had before; later where the database is away."""
        order = self._order()
        work = plan(order)
        try:
            submit(self._database, order, work, (), time.time_ns() // 1000)
            with self._database.reading() as s:
                classes = {row.device.device_class for row in device.devices(s)}
        except FarmError as error:
            self.world.say(f"can't submit: {str(error)[:160]}")
            return
        self._seed += self.pace.seeds
        self.jobs += len(work.planned) * len(classes)

    def _order(self) -> Order:
        seeds = tuple(range(self._seed, self._seed + self.pace.seeds))
        selection = Selection(
            kernels=KERNELS,
            kinds=KINDS,
            shapes=("3x256", "5x512"),
            families=("ordinary",),
            seeds=seeds,
            builds=(Build.EXACT, Build.DEFAULT),
        )
        return Order(selection, ("sim",), "sim-*")

    def _wait_for_end(self) -> None:
        until = time.monotonic() + self.pace.patience_s
        while not self._is_over():
            if time.monotonic() > until:
                raise Stuck(f"not over after {self.pace.patience_s:g} s without trouble: {self._told()}")
            self._step()

    def _is_over(self) -> bool:
        if self._due:
            return False
        try:
            with self._database.reading() as s:
                return not campaign.open_campaigns(s)
        except FarmError:
            return False

    def _told(self) -> str:
        try:
            return told(self._database)
        except FarmError as error:
            return str(error)


def told(database: Database) -> str:
    with database.reading() as s:
        rows = campaign.campaigns(s)
    done, jobs = sum(row.done for row in rows), sum(row.jobs for row in rows)
    return f"{done:,} of {jobs:,} jobs have a verdict, {sum(row.is_open for row in rows)} campaigns are open"
