"""The contract of a backend that measures: a plan over and over, timed by the device's own clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from kernels.model import Device, Plan
from workers.backend import Run


@dataclass(frozen=True)
class Rounds:
    """How often a plan runs; one pass is all its launches behind `plan.setup`, in order."""

    batches: int  # each between two events of the device
    passes: int  # of one batch: so many that it takes far longer than an event's own resolution, 0.5 us
    warmups: int  # passes before the first batch, not timed
    chosen: int  # number of the pass, below batches * passes, whose outputs are brought home

    def __post_init__(self) -> None:
        if min(self.batches, self.passes) < 1 or self.warmups < 0:
            raise ValueError(f"{self.batches} batches of {self.passes} passes, {self.warmups} before them")
        if not 0 <= self.chosen < self.batches * self.passes:
            raise ValueError(f"pass {self.chosen} of {self.batches * self.passes} can't be chosen")


@dataclass(frozen=True)
class BoardState:
    """What a board was doing at one moment; None where it doesn't tell."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    throttled_by: tuple[str, ...] | None = None  # sw_power_cap, hw_slowdown, sw_thermal, …; () if by nothing
    ecc_uncorrected: int | None = None  # since the driver was loaded
    ecc_corrected: int | None = None


@dataclass(frozen=True)
class Timing:
    """What timing a plan gave."""

    pass_us: tuple[float, ...]  # one a batch: its time divided by its passes
    run: Run  # of the chosen pass alone: what its buffers hold, its launches, their compiler and flags
    before: BoardState
    after: BoardState


@runtime_checkable
class Timed(Protocol):
    """What a backend that measures offers beside `run`."""

    name: str

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        """Passes over `copies` in turn: pass n, warm-ups counted apart, reads copy n % len(copies).

        Each copy is a full set of the plan's IN and INOUT images and lies in memory of its own, all of them
        at once: enough distinct copies keep weights out of the cache. An INOUT buffer isn't restored between
        passes. The chosen pass has OUT, INOUT and SCRATCH buffers of its own, filled first with the turn's
        poison, that no other pass writes to: what comes back is what that one launch put out, between others
        and as fast. It reads copy chosen % len(copies), by which it is to be judged.

        Raises what Backend.run raises, and CannotRun where the copies don't fit together.
        """

    def state(self, device: Device) -> BoardState:
        """Clocks, temperature and throttling now."""
