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
from kernels.model import Device, Evidence, Rule
from workers import packs
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
    raised here when the other slots have finished their cases.
    """
    waiting = deque(planned)
    one_at_a_time = threading.Lock()
    stop = threading.Event()
    until = clock() + 60 * order.minutes if order.minutes else float("inf")

    def work() -> None:
        with closing(Isolated()) as slot:
            while waiting and not stop.is_set() and clock() < until:
                try:
                    item = waiting.popleft()
                except IndexError:  # another slot was faster
                    return
                evidence = slot.run(request(item, order), order.deadline_s)
                with one_at_a_time:
                    take(replace(evidence, origin="bundle"))

    slots = max(1, min(order.device.slots, len(waiting)))
    with ThreadPoolExecutor(slots, thread_name_prefix="slot") as pool:
        threads = [pool.submit(work) for _ in range(slots)]
        try:
            wait(threads, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for thread in threads:
        thread.result()
    return len(waiting)


def request(item: Planned, order: Order) -> Request:
    return Request(
        new_id(), item.case, order.backend, order.device, item.repeats, order.rule,
        pack=order.pack, packs=str(packs.store()) if order.pack else "",
    )  # fmt: skip
