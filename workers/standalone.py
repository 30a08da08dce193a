"""Runs cases on this machine alone, one child a slot, and hands over each piece of evidence as it comes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace

from kernels.catalog import Planned
from kernels.evidence import Evidence, Rule
from kernels.model import Device
from workers import packs
from workers.board_lock import held
from workers.isolate import Isolated
from workers.request import Request
from workers.runner import new_id


@dataclass(frozen=True)
class Order:
    """What is the same for all cases of one run."""

    backend: str
    device: Device
    rule: Rule = Rule.BOUND
    deadline_s: float = 120.0  # for each case
    minutes: float = 0.0  # after which no further case is started; 0: no limit
    pack: str = ""  # address of the user's catalog that the cases' kernels are in


def run_cases(
    planned: Iterable[Planned],
    order: Order,
    take: Callable[[Evidence], None],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Runs every case unless the time is over; how many were not started.

    `take` gets the evidence in the order in which cases end, never two at once. What it or a slot raises is
    raised here when the other slots have finished their cases. KeyboardInterrupt ends the running cases at
    once: they have no evidence, and run again when the same is asked again.
    """
    with held(order.device) as lock:
        crew = Crew(deque(planned), order, take, clock, lock.descriptor)
        return crew.run()


class Crew:
    """The threads of one run, a slot each."""

    def __init__(
        self,
        waiting: deque[Planned],
        order: Order,
        take: Callable[[Evidence], None],
        clock: Callable[[], float],
        holds: int | None,
    ) -> None:
        self._waiting = waiting
        self._order = order
        self._take = take
        self._clock = clock
        self._until = clock() + 60 * order.minutes if order.minutes else float("inf")
        self._slots = [Isolated(holds=holds) for _ in range(max(1, min(order.device.slots, len(waiting))))]
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()  # no further case
        self._abandoned = threading.Event()  # and none of the running ones

    def run(self) -> int:
        """How many cases were not started."""
        with ThreadPoolExecutor(len(self._slots), thread_name_prefix="slot") as pool:
            threads = [pool.submit(self._work, slot) for slot in self._slots]
            try:
                wait(threads, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                self._abandoned.set()
                self._stop.set()
                for slot in self._slots:
                    slot.abandon()
                raise
            finally:
                self._stop.set()
        for thread in threads:
            thread.result()
        return len(self._waiting)

    def _work(self, slot: Isolated) -> None:
        with closing(slot):
            while self._waiting and not self._stop.is_set() and self._clock() < self._until:
                try:
                    item = self._waiting.popleft()
                except IndexError:  # another slot was faster
                    return
                evidence = slot.run(request(item, self._order), self._order.deadline_s)
                with self._one_at_a_time:
                    if not self._abandoned.is_set():
                        self._take(replace(evidence, origin="bundle"))


def request(item: Planned, order: Order) -> Request:
    return Request(
        new_id(), item.case, order.backend, order.device, item.repeats, order.rule,
        pack=order.pack, packs=str(packs.store()) if order.pack else "",
    )  # fmt: skip
