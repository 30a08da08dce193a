"""Runs cases on this machine alone, one child a slot, and hands over each piece of evidence as it comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from queue import Empty, Queue

from kernels.catalog import Planned
from kernels.model import Device, Evidence, Rule
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
    waiting: Queue[Planned] = Queue()
    for item in planned:
        waiting.put(item)
    one_at_a_time = threading.Lock()
    stop = threading.Event()
    failures: list[BaseException] = []
    until = clock() + 60 * order.minutes if order.minutes else float("inf")

    def work() -> None:
        try:
            with closing(Isolated()) as slot:
                while not stop.is_set() and clock() < until:
                    item = waiting.get_nowait()
                    evidence = slot.run(request(item, order), order.deadline_s)
                    with one_at_a_time:
                        take(replace(evidence, origin="bundle"))
        except Empty:
            return
        except Exception as error:  # noqa: BLE001 - it is raised again by the thread that waits
            failures.append(error)
            stop.set()

    slots = [
        threading.Thread(target=work, name=f"slot {number}")
        for number in range(max(1, min(order.device.slots, waiting.qsize())))
    ]
    for slot in slots:
        slot.start()
    try:
        for slot in slots:
            slot.join()
    finally:
        stop.set()
        for slot in slots:
            slot.join()
    if failures:
        raise failures[0]
    return waiting.qsize()


def request(item: Planned, order: Order) -> Request:
    return Request(new_id(), item.case, order.backend, order.device, item.repeats, order.rule)
