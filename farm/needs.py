"""What a case asks of the board and the worker that run it, told from its kernel and its plan."""

from __future__ import annotations

from db.needs import Needs
from kernels import registry
from kernels.model import Case, Device, FromFile
from kernels.op import Kernel

# Compute capabilities of CUDA 12's boards.
ARCHITECTURES = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)
NAMED_FROM_BYTES = 1 << 30  # every board has as much as that: what takes less asks for none


def needs(case: Case) -> Needs:
    """The files that inputs are read from, the device memory of all buffers, and the least sm.

    A case that its op or kernel refuses asks for nothing of a board: it runs nowhere.
    """
    files = {source.sha256 for source in (case.weights, case.x) if isinstance(source, FromFile)}
    held = tuple(sorted(files))
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    if registry.op(case.op).refuses(case) or kernel.refuses(case):
        return Needs(files=held)
    memory_bytes = sum(buffer.nbytes for buffer in kernel.plan(case).buffers)
    least = memory_bytes if memory_bytes >= NAMED_FROM_BYTES else 0
    return Needs(sm=least_sm(kernel), memory_bytes=least, files=held)


def least_sm(kernel: Kernel) -> int:
    """The smallest architecture that the kernel doesn't refuse; 0 where it takes all."""
    for sm in ARCHITECTURES:
        if not kernel.refuses_device(_board(sm), executes=True):
            return sm if sm > ARCHITECTURES[0] else 0
    return 0


def _board(sm: int) -> Device:
    return Device(f"sm-{sm}", f"sm_{sm}", "", "", fingerprint=(("sm", f"sm_{sm}"),))
