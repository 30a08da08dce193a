"""When a worker that pulls ends by itself, so that a rented machine doesn't run on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

from kernels.errors import FarmError, UsageError
from workers.protocol import Unreachable

Clock = Callable[[], float]  # seconds that never go back


@dataclass(frozen=True)
class Limits:
    """In minutes; 0 sets none."""

    life: float = 0.0  # start no case after that long
    away: float = 0.0  # without an answer of the gateway
    idle: float = 0.0  # without a case to run or a line to send

    def __post_init__(self) -> None:
        options = {"--minutes": self.life, "--patience-minutes": self.away, "--idle-minutes": self.idle}
        for option, minutes in options.items():
            if not 0 <= minutes < math.inf:
                raise UsageError(f"{option} is {minutes:g}; want minutes, 0 or more")


NONE = Limits()


class Leaving:
    """Knows when the gateway answered last and when there was something to do."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._began = self._heard = self._busy = clock()

    def hearing(self, carry: Callable[[str, str], str]) -> Callable[[str, str], str]:
        """`carry`, whose answers are noticed; a refusal is one too."""

        @wraps(carry)
        def noticed(call: str, text: str) -> str:
            try:
                answer = carry(call, text)
            except Unreachable:
                raise
            except FarmError:
                self._heard = self._clock()
                raise
            self._heard = self._clock()
            return answer

        return noticed

    def check(self, busy: bool) -> str:
        """Why the time is up, or nothing; FarmError where it is for want of a gateway."""
        now = self._clock()
        if busy:
            self._busy = now
        limits = self._limits
        if _is_over(now - self._heard, limits.away):
            raise FarmError(
                f"no answer of the gateway for {limits.away:g} minutes; lines not sent are kept in the spool"
            )
        if _is_over(now - self._began, limits.life):
            return f"the {limits.life:g} minutes of --minutes are over"
        if _is_over(now - self._busy, limits.idle):
            return f"nothing to do for {limits.idle:g} minutes"
        return ""


def _is_over(elapsed_s: float, minutes: float) -> bool:
    return bool(minutes) and elapsed_s >= minutes * 60
