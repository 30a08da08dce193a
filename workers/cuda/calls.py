"""A launch or a library's call made ready to be queued, on buffers that lie at given addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.evidence import LaunchRecord
from kernels.model import Arg, BufferArg, Launch, Plan
from workers.backend import CannotRun
from workers.cuda.code import Code
from workers.cuda.driver import Driver, Gemm

Addresses = Mapping[str, int]  # of a buffer's image, by its name
NOWHERE = (0, 0, 0)  # grid and block of what a library launches by itself
ELEMENTS = {"F16": "f2", "F32": "f4"}  # a kind of plain numbers: their type


@dataclass(frozen=True)
class Call:
    """Something to queue, any number of times, and what is recorded of it."""

    queue: Callable[[], None]
    record: LaunchRecord  # but for its time


def of_text(launch: Launch, plan: Plan, at: Addresses, code: Code, entry: Any, driver: Driver) -> Call:
    """A launch of an entry that is loaded."""
    args = arguments(launch, plan, at)
    grid, block, shared = launch.grid, launch.block, launch.dynamic_shared_bytes
    static = driver.static_shared_bytes(entry)
    record = LaunchRecord(launch.kernel, launch.entry, grid, block, static, shared, code.digest, 0.0)
    return Call(lambda: driver.launch(entry, grid, block, args, shared), record)


def arguments(launch: Launch, plan: Plan, at: Addresses) -> tuple[np.generic, ...]:
    """Pointers as 64 bits, scalars as the plan types them: what crosses is the bytes of these."""
    return tuple(_argument(arg, plan, at) for arg in launch.args)


def _argument(arg: Arg, plan: Plan, at: Addresses) -> np.generic:
    if isinstance(arg, BufferArg):
        return np.uint64(at[arg.buffer] + plan.buffer(arg.buffer).offset)
    of = np.dtype(arg.dtype)
    value: np.generic = of.type(arg.value if of.kind == "f" else int(arg.value))
    return value


def of_library(launch: Launch, plan: Plan, at: Addresses, driver: Driver) -> Call:
    """What a library does; CannotRun where none here does it."""
    if launch.entry not in ROUTINES:
        raise CannotRun(f"no library on a board does {launch.entry}; there are {', '.join(ROUTINES)}")
    queue, by = ROUTINES[launch.entry](launch, plan, at, driver)
    return Call(queue, LaunchRecord(launch.kernel, launch.entry, NOWHERE, NOWHERE, 0, 0, "", 0.0, by))


Routine = Callable[[Launch, Plan, Addresses, Driver], tuple[Callable[[], None], str]]


def _gemm(launch: Launch, plan: Plan, at: Addresses, driver: Driver) -> tuple[Callable[[], None], str]:
    """cuBLAS over the case's numbers: `weights` (rows, bytes), `x` (batch, cols), `out` (batch, rows)."""
    element = ELEMENTS.get(launch.kind)
    if element is None:
        raise CannotRun(f"cuBLAS multiplies {' and '.join(ELEMENTS)}, not {launch.kind}")
    names, size = launch.buffers, np.dtype(element).itemsize
    weights, x, out = (plan.buffer(names[role]) for role in ("weights", "x", "out"))
    call = Gemm(
        weights=at[weights.name] + weights.offset,
        x=at[x.name] + x.offset,
        out=at[out.name] + out.offset,
        rows=out.shape[1],
        cols=x.shape[1],
        batch=x.shape[0],
        pitch=weights.strides[0] // size,
        dtype=element,
    )
    if weights.strides[0] % size:
        raise CannotRun(f"rows {weights.strides[0]} bytes apart aren't whole elements of {size} bytes")
    return lambda: driver.gemm(call), driver.blas()


ROUTINES: dict[str, Routine] = {"gemm": _gemm}
