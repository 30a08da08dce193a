"""The numpy twin as a backend: always there, the measure that every other backend is held against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernels import judge
from kernels.model import Device, Plan, Role
from workers.backend import Run, filled
from workers.machine import cpu_device


class Twin:
    name = "twin"
    orders = 1

    def devices(self) -> tuple[Device, ...]:
        return (cpu_device(),)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        """Evaluates the plan in numpy; nothing is launched, so there are no launch records."""
        outputs = judge.twin_outputs(plan, images)
        memory = dict(images)
        for buffer in plan.buffers:
            if buffer.role is not Role.IN:
                memory[buffer.name] = images[buffer.name].copy() if buffer.given else filled(buffer, turn)
                buffer.view(memory[buffer.name])[...] = buffer.view(outputs[buffer.name])
        return Run(memory, (), (), f"numpy {np.__version__}", "")


BACKEND = Twin()
