"""A backend for tests that measures: the twin, and times that somebody made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.model import Device, Plan
from workers.backend import Run
from workers.backends.twin import BACKEND as TWIN
from workers.timed import BoardState, Rounds, Timing


@dataclass
class FakeTimed:
    """Its clock says what `pass_us` gives for a batch's number; the chosen pass is really computed."""

    pass_us: Callable[[int], float] = lambda batch: 10.0
    queue_us: float = 0.0  # what queueing a pass takes; 0: nothing is queued
    board: BoardState = field(default_factory=BoardState)
    name: str = "timed"
    orders: int = 1

    def devices(self) -> tuple[Device, ...]:
        return TWIN.devices()

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        return TWIN.run(plan, images, device, turn)

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        run = self.run(plan, copies[rounds.chosen % len(copies)], device, turn)
        queue_us = (self.queue_us,) * rounds.batches if self.queue_us else ()
        return Timing(tuple(map(self.pass_us, range(rounds.batches))), run, self.board, self.board, queue_us)

    def state(self, device: Device) -> BoardState:
        return self.board


BACKEND = FakeTimed()
