"""A backend for tests: the twin, which measures, and whose process dies over a yardstick."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

import numpy as np

from kernels.model import Device, Plan
from workers.backend import Run
from workers.backends.twin import BACKEND as TWIN
from workers.timed import BoardState, Rounds, Timing


class Cracked:
    name = "cracked"
    orders = 1

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
        if plan.launches[0].kernel.startswith("yardstick"):
            os.kill(os.getpid(), signal.SIGSEGV)
        run = self.run(plan, copies[rounds.chosen % len(copies)], device, turn)
        return Timing((10.0,) * rounds.batches, run, BoardState(), BoardState())

    def state(self, device: Device) -> BoardState:
        return BoardState()


BACKEND = Cracked()
