"""The contract of a backend that measures: a plan over and over, timed by the device's own clock."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from kernels import dtypes
from kernels.model import Buffer, Device, Plan, Role
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
    queue_us: tuple[float, ...] = ()  # as pass_us, what queueing took here; () where launches aren't queued


def is_found_as_given(buffer: Buffer) -> bool:
    """Whether a launch may count on what is in a buffer that it writes to: in place, or filled on purpose."""
    return buffer.role is Role.INOUT or (buffer.role is not Role.IN and buffer.fill is not None)


def rewritten(plan: Plan) -> tuple[str, ...]:
    """The buffers that no pass may count on: outputs, and scratch, but for what set-up has prepared."""
    prepared = {name for launch in plan.launches[: plan.setup] for name in launch.buffers.values()}
    written = (buffer for buffer in plan.buffers if buffer.role is not Role.IN)
    return tuple(b.name for b in written if not is_found_as_given(b) and b.name not in prepared)


def nobodys(buffer: Buffer) -> np.ndarray:
    """A (nbytes,) uint8 image of numbers that no inputs give, others at each call."""
    random = np.random.default_rng(secrets.randbits(64))
    image = np.frombuffer(random.bytes(buffer.nbytes), np.uint8).copy()
    view = buffer.view(image)
    if view.dtype in dtypes.QUIET:
        view[...] = dtypes.rounded(random.standard_normal(view.shape, np.float32), view.dtype)
    return image


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
        at once: enough distinct copies keep weights out of the cache. What comes back is what the chosen pass
        put out, between others and as fast. It reads copy chosen % len(copies), by which it is to be judged.

        No launch can tell the chosen pass from others by what it finds in a buffer that it rewrites, and what
        it finds is never right: poison before every pass; or numbers of nobody's and, where there are two
        copies, what the other gave. What a launch may count on (is_found_as_given) the chosen pass has as it
        was given, in a buffer of its own; an INOUT buffer isn't restored between other passes.

        Raises what Backend.run raises, and CannotRun where the copies don't fit together.
        """

    def state(self, device: Device) -> BoardState:
        """Clocks, temperature and throttling now."""
