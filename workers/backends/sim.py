"""Boards that don't exist: the numpy twin under other names, with planned faults. Never part of a matrix."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.errors import FarmError
from kernels.model import Device, Plan
from workers.backend import Run, Unavailable
from workers.backends.twin import BACKEND as TWIN
from workers.rented import rented
from workers.sim import plan as plans
from workers.sim.plan import Fault
from workers.sim.slot import FAULT, SimSlot

SLOTS = 2
COMPILER = "simulated: the numpy twin with planned faults"


class Sim:
    """What `workers.sim.plan` plans; without a plan there is no board."""

    name = plans.BACKEND
    orders = 1

    def devices(self) -> tuple[Device, ...]:
        if not plans.is_planned():
            raise Unavailable(
                f"sim is unavailable because nothing is planned; {plans.PLAN_FILE} names a plan"
            )
        try:
            plans.read()  # one that is none is told before a case runs
        except FarmError as error:
            raise Unavailable(f"sim is unavailable because {error}") from None
        boards = plans.boards()
        if not boards:
            raise Unavailable(
                f"sim is unavailable because {plans.BOARDS} names no board; "
                f"it is a list of {plans.PREFIX}CLASS-NUMBER"
            )
        return tuple(map(simulated_board, boards))

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        """The twin's run, or what the device's fingerprint says is to happen instead."""
        fault = Fault(dict(device.fingerprint).get(FAULT, Fault.NONE))
        if fault is Fault.CRASH:
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault is Fault.HANG:
            threading.Event().wait()
        run = TWIN.run(plan, images, device, turn)
        return replace(
            run, images=spoiled(plan, run.images) if fault is Fault.WRONG else run.images, compiler=COMPILER
        )

    def slot(self) -> SimSlot:
        """A slot without a child process for every case."""
        return SimSlot(plans.read(), self)


def simulated_board(slug: str) -> Device:
    """A board whose every name says what it is."""
    name = f"simulated board {slug}"
    return Device(slug, plans.class_of(slug), name, slug, SLOTS, (("simulated", "yes"), *rented(os.environ)))


def spoiled(plan: Plan, images: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The images with another number in the first element of every buffer that is put out."""
    wrong = dict(images)
    for buffer in (buffer for buffer in plan.buffers if buffer.put_out):
        wrong[buffer.name] = images[buffer.name].copy()
        view = buffer.view(wrong[buffer.name]).reshape(-1)
        view[:1] = view[:1] + np.ones(1, view.dtype)
    return wrong


BACKEND = Sim()
