"""A backend for tests: `cuda` over a board that isn't there, and faults as a case's number of rows says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kernels.model import Device, Plan
from tests.workers.fakes.cuda_driver import DEVICE, FakeDriver, fake_cuda
from workers.backend import Run
from workers.backends.cuda import Cuda

FAULTS = {
    201: ("wait", 700),  # illegal address
    202: ("wait", 702),  # the display's watchdog
    203: ("download", 214),  # ECC
    204: ("allocate", 2),  # out of memory
    205: ("entry", 209),  # no image for this board
    206: ("launch", 999),  # unknown
}


@dataclass
class FaultyBoard:
    """The compiler's name is the process's, so that a test sees which child ran a case."""

    name: str = "faulty_board"
    orders: int = 1
    driver: FakeDriver = field(default_factory=FakeDriver)
    cuda: Cuda | None = None

    def devices(self) -> tuple[Device, ...]:
        return (DEVICE,)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        self.cuda = self.cuda or fake_cuda(self.driver)
        call, code = FAULTS.get(plan.buffer("out").shape[0], ("", 0))
        if call:
            self.driver.fails[call] = code
        return replace(self.cuda.run(plan, images, device, turn), compiler=f"process {os.getpid()}")


BACKEND = FaultyBoard()
