"""Works for a gateway until stopped: one agent for each board of this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from kernels.errors import FarmError
from workers.board_thread import BoardThread
from workers.boards import matching, survey, wanted_backends
from workers.json_calls import Caller
from workers.leaving import NONE, Clock, Leaving, Limits
from workers.log import writing_to

GLANCE_S = 0.5


@dataclass(frozen=True)
class Pull:
    """What a worker was told."""

    backends: tuple[str, ...] = ()  # empty: the default ones
    device: str = "*"  # glob
    drain: bool = False  # end when nothing is left to do, instead of waiting for the next campaign
    limits: Limits = NONE


def pull(carry: Callable[[str, str], str], order: Pull, clock: Clock = time.monotonic) -> int:
    """Works until interrupted, drained where that was asked for, or at a limit; how many cases ran.

    FarmError where no board fits, where the gateway refuses one or is away for too long, or where an agent
    fails.
    """
    chosen = matching(survey(wanted_backends(order.backends)), order.device)
    leaving = Leaving(order.limits, clock)
    caller = Caller(leaving.hearing(carry))
    threads = [BoardThread(caller, one.device, one.backends, stays=not order.drain) for one in chosen]
    with writing_to("pull"), StoppingOnSignals(threads):
        for thread in threads:
            thread.start()
        names = ", ".join(thread.name for thread in threads)
        print(f"workers: at work for {names}; Ctrl-C ends it", file=sys.stderr, flush=True)
        given_up = _wait(threads, leaving)
    if failures := [f"{thread.name}: {thread.failure}" for thread in threads if thread.failure]:
        raise FarmError("; ".join(failures))
    if given_up:
        raise given_up
    return sum(thread.summary.ran for thread in threads if thread.summary)


def _wait(threads: Sequence[BoardThread], leaving: Leaving) -> FarmError | None:
    """Until all have ended, and asks them to when a limit is reached; what they were given up for."""
    given_up, asked = None, False
    living = list(threads)
    while living:
        living[0].ended.wait(GLANCE_S)
        ended = [thread for thread in living if thread.ended.is_set()]
        living = [thread for thread in living if thread not in ended]
        if living:  # else all that failed is told in the end
            _tell_failures(ended)
        if asked or not living:
            continue
        try:
            reason = leaving.check(any(one.agent.is_busy for one in threads))
        except FarmError as error:
            given_up, reason = error, str(error)
        if asked := bool(reason):
            print(f"workers: {reason}; ends", file=sys.stderr, flush=True)
            for one in threads:
                one.agent.stop()
    return given_up


def _tell_failures(ended: Sequence[BoardThread]) -> None:
    """Says which boards nobody works for any more, while there are others."""
    for thread in ended:
        if thread.failure:
            print(
                f"workers: {thread.name} has ended and the others go on: {thread.failure}",
                file=sys.stderr,
                flush=True,
            )


class StoppingOnSignals:
    """SIGINT and SIGTERM let the running cases end and give the rest back; the second one ends at once."""

    def __init__(self, threads: Sequence[BoardThread]) -> None:
        self._threads = threads
        self._before: dict[int, object] = {}
        self._asked = threading.Event()

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave back

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
        # Not by print: this thread may be printing just now, and no stream is entered twice.
        os.write(2, b"workers: ends when the running cases have ended\n")
        for thread in self._threads:
            thread.agent.stop()
