"""Logs what the gateway refused; strangers can't fill the log."""

from __future__ import annotations

import threading
from collections.abc import Callable

from farm.log import logger

EVERY_S = 1.0
LONGEST = 40  # characters of a call's name, which a stranger chooses


class Refusals:
    """One line a second at most, with how many there were since the last; safe from several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._log = logger("gateway")
        self._lock = threading.Lock()
        self._unsaid = 0
        self._next_s = clock()

    def note(self, call: str, status: int, reason: str) -> None:
        with self._lock:
            self._unsaid += 1
            now = self._clock()
            if now < self._next_s:
                return
            self._next_s, times, self._unsaid = now + EVERY_S, self._unsaid, 0
        self._log.warning("call refused", call=call[:LONGEST], status=status, reason=reason, times=times)
