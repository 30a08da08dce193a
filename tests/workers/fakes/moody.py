"""A backend for tests: the twin, which misbehaves in the way that a case's number of rows stands for."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from kernels.model import Device, Plan
from workers.backend import BoardFault, KernelFault, Run
from workers.backends.twin import BACKEND as TWIN

runs = 0


def null_pointer() -> None:
    ctypes.string_at(0)


def hang() -> None:
    threading.Event().wait()


def hang_holding_the_interpreter() -> None:
    ctypes.PyDLL(None).pause()


def eat_memory() -> None:
    np.ones(1 << 40, np.uint8)


def orphan_and_hang() -> None:
    """A process of another session that keeps our socket, then silence."""
    if os.fork() == 0:
        os.setsid()
        threading.Event().wait()
    hang()


def stranger_and_crash() -> None:
    """A program of another session, then a crash."""
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    os.abort()


def print_garbage() -> None:
    os.write(1, b"\x00\x00\x00\x05hello\n" * 1000)
    os.write(2, b"what is this\n")


def crash_unless_first() -> None:
    if runs > 1:
        os.kill(os.getpid(), signal.SIGSEGV)


def fault() -> None:
    raise KernelFault("wild access")


def ecc() -> None:
    raise BoardFault("uncorrectable ECC error")


MOODS: dict[int, Callable[[], None]] = {
    101: null_pointer,
    102: os.abort,
    103: hang,
    104: hang_holding_the_interpreter,
    105: eat_memory,
    106: orphan_and_hang,
    107: stranger_and_crash,
    108: print_garbage,
    109: crash_unless_first,
    110: fault,
    111: lambda: os._exit(7),
    112: lambda: os.kill(os.getpid(), signal.SIGKILL),
    113: lambda: os.closerange(3, 256),
    115: ecc,
}
BREAKS_GUARD = 114


class Moody:
    name = "moody"
    orders = 1

    def devices(self) -> tuple[Device, ...]:
        return TWIN.devices()

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        global runs
        runs += 1
        rows = plan.buffer("out").shape[0]
        MOODS.get(rows, lambda: None)()
        run = replace(TWIN.run(plan, images, device, turn), compiler=f"process {os.getpid()}")
        return replace(run, guards=("1 byte behind out",)) if rows == BREAKS_GUARD else run


BACKEND = Moody()
