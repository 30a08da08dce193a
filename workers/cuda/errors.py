"""Sorts the codes that CUDA answers with into what they are about: kernel, case, board or farm.

Codes, names and which of them leave a context that can't be used again: NVIDIA, CUDA Driver API, `CUresult`,
and CUDA Runtime API, `cudaError_t`, of CUDA 12.9, which number what they share alike; cuBLAS,
`cublasStatus_t`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kernels.errors import FarmError
from workers.backend import BoardFault, CannotRun, KernelFault, Overrun, Rejected

CUDA, CUBLAS = "CUDA", "cuBLAS"


class CudaError(FarmError):
    """A call into CUDA that didn't succeed, as the vendor's code says it."""

    def __init__(self, code: int, call: str, api: str = CUDA) -> None:
        super().__init__(f"{api} answered {code} to {call}")
        self.code, self.call, self.api = code, call, api


class During(StrEnum):
    """What the farm was doing with the board."""

    LOAD = "load"  # of a module, and looking up an entry
    LAUNCH = "launch"  # up to the end of the chain of launches
    ELSE = "else"  # allocating, copying, opening


class Says(StrEnum):
    """What a code says."""

    KERNEL = "kernel"  # CRASH, unless the board turns out to be at fault
    OVERRUN = "overrun"  # TIMEOUT: the driver's own deadline
    REFUSED = "refused"  # REJECT: the loader takes the code for no code of this board's
    ROOM = "room"  # SKIP: not enough memory
    LIMIT = "limit"  # SKIP: past what this board can launch
    BOARD = "board"  # ERROR: the board, its memory or its link
    FARM = "farm"  # ERROR: the farm, the driver or the machine


@dataclass(frozen=True)
class Row:
    """One code and what it says."""

    code: int
    name: str
    says: Says
    sticky: bool = False  # the context can't be used any more: the process has to go
    at_launch: Says | None = None  # where that says something else than elsewhere
    api: str = CUDA


TABLE = (
    Row(1, "INVALID_VALUE", Says.FARM, at_launch=Says.LIMIT),
    Row(2, "OUT_OF_MEMORY", Says.ROOM),
    Row(3, "NOT_INITIALIZED", Says.FARM, sticky=True),
    Row(4, "DEINITIALIZED", Says.FARM, sticky=True),
    Row(9, "InvalidConfiguration", Says.LIMIT),
    Row(35, "InsufficientDriver", Says.FARM),
    Row(36, "CallRequiresNewerDriver", Says.FARM),
    Row(46, "DEVICE_UNAVAILABLE", Says.FARM),
    Row(53, "PriorLaunchFailure", Says.KERNEL, sticky=True),
    Row(98, "InvalidDeviceFunction", Says.REFUSED),
    Row(100, "NO_DEVICE", Says.BOARD, sticky=True),
    Row(101, "INVALID_DEVICE", Says.BOARD, sticky=True),
    Row(200, "INVALID_IMAGE", Says.REFUSED),
    Row(201, "INVALID_CONTEXT", Says.FARM, sticky=True),
    Row(209, "NO_BINARY_FOR_GPU", Says.REFUSED),
    Row(214, "ECC_UNCORRECTABLE", Says.BOARD, sticky=True),
    Row(218, "INVALID_PTX", Says.REFUSED),
    Row(220, "NVLINK_UNCORRECTABLE", Says.BOARD, sticky=True),
    Row(221, "JIT_COMPILER_NOT_FOUND", Says.FARM),
    Row(222, "UNSUPPORTED_PTX_VERSION", Says.REFUSED),
    Row(223, "JIT_COMPILATION_DISABLED", Says.FARM),
    Row(226, "CONTAINED", Says.BOARD, sticky=True),
    Row(300, "INVALID_SOURCE", Says.REFUSED),
    Row(301, "FILE_NOT_FOUND", Says.FARM),
    Row(500, "NOT_FOUND", Says.REFUSED),
    Row(700, "ILLEGAL_ADDRESS", Says.KERNEL, sticky=True),
    Row(701, "LAUNCH_OUT_OF_RESOURCES", Says.LIMIT),
    Row(702, "LAUNCH_TIMEOUT", Says.OVERRUN, sticky=True),
    Row(709, "CONTEXT_IS_DESTROYED", Says.FARM, sticky=True),
    Row(710, "ASSERT", Says.KERNEL, sticky=True),
    Row(714, "HARDWARE_STACK_ERROR", Says.KERNEL, sticky=True),
    Row(715, "ILLEGAL_INSTRUCTION", Says.KERNEL, sticky=True),
    Row(716, "MISALIGNED_ADDRESS", Says.KERNEL, sticky=True),
    Row(717, "INVALID_ADDRESS_SPACE", Says.KERNEL, sticky=True),
    Row(718, "INVALID_PC", Says.KERNEL, sticky=True),
    Row(719, "LAUNCH_FAILED", Says.KERNEL, sticky=True),
    Row(720, "COOPERATIVE_LAUNCH_TOO_LARGE", Says.LIMIT),
    Row(721, "TENSOR_MEMORY_LEAK", Says.KERNEL, sticky=True),
    Row(802, "SYSTEM_NOT_READY", Says.BOARD),
    Row(803, "SYSTEM_DRIVER_MISMATCH", Says.FARM),
    Row(804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", Says.FARM),
    Row(912, "INVALID_CLUSTER_SIZE", Says.LIMIT),
    Row(999, "UNKNOWN", Says.BOARD, sticky=True),
    Row(1, "NOT_INITIALIZED", Says.FARM, api=CUBLAS),
    Row(3, "ALLOC_FAILED", Says.ROOM, api=CUBLAS),
    Row(7, "INVALID_VALUE", Says.FARM, api=CUBLAS),
    Row(8, "ARCH_MISMATCH", Says.LIMIT, api=CUBLAS),
    Row(13, "EXECUTION_FAILED", Says.KERNEL, sticky=True, api=CUBLAS),
    Row(15, "NOT_SUPPORTED", Says.LIMIT, api=CUBLAS),
)
BY_CODE = {(row.api, row.code): row for row in TABLE}


def row_of(error: CudaError) -> Row:
    """The table's row; a code that isn't there says nothing about a kernel, and the process goes."""
    unlisted = Row(error.code, "not in the farm's table", Says.FARM, sticky=True, api=error.api)
    return BY_CODE.get((error.api, error.code), unlisted)


def sorted_out(error: CudaError, during: During, trouble: Callable[[], str]) -> FarmError:
    """What to raise instead: it carries the verdict, and whether the process has to go.

    `trouble` asks the board for a fault of its own, in words, and is asked before a kernel is blamed.
    """
    row = row_of(error)
    says = row.at_launch if row.at_launch and during is During.LAUNCH else row.says
    told = f"{row.api} error {row.code} ({row.name}) at {error.call}"
    if says in (Says.KERNEL, Says.OVERRUN) and (why := trouble()):
        says, told = Says.BOARD, f"{told}: {why}"
    return RAISES[says](told, row.sticky)


def _fatal(told: str, sticky: bool) -> FarmError:
    return BoardFault(told, sticky)


RAISES: dict[Says, Callable[[str, bool], FarmError]] = {
    Says.KERNEL: lambda told, sticky: KernelFault(told),
    Says.OVERRUN: lambda told, sticky: Overrun(told),
    Says.REFUSED: lambda told, sticky: Rejected(told),
    Says.ROOM: lambda told, sticky: CannotRun(f"not enough memory: {told}"),
    Says.LIMIT: lambda told, sticky: CannotRun(f"past this board's limits: {told}"),
    Says.BOARD: _fatal,
    Says.FARM: _fatal,
}
