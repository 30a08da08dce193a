"""What every CUDA device launches: grids, blocks and shared bytes beyond that are mistakes with a line."""

from __future__ import annotations

from kernels.declared.declaration import StepOf
from kernels.declared.mistake import Misdeclared, Mistake, Place
from kernels.model import Launch

MOST_GRID = (2**31 - 1, 65535, 65535)
MOST_BLOCK = (1024, 1024, 64)
MOST_THREADS = 1024
MOST_SHARED_BYTES = 48 << 10  # without the opt-in that some devices have


def demand_launch(launch: Launch, step: StepOf) -> None:
    """Misdeclared with the line of what is too large, or less than one."""
    for noun, size, most, formulas in (
        ("grid", launch.grid, MOST_GRID, step.grid),
        ("block", launch.block, MOST_BLOCK, step.block),
    ):
        for axis, side, limit, formula in zip("xyz", size, most, (*formulas, None, None), strict=False):
            if formula and not 1 <= side <= limit:
                _refuse(formula.place, f"{noun}.{axis} is {side} by {formula.text!r}, want 1 to {limit:,}")
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if threads > MOST_THREADS:
        _refuse(
            step.block[0].place,
            f"block {launch.block} has {threads:,} threads, the most are {MOST_THREADS:,}",
        )
    if step.shared and not 0 <= launch.dynamic_shared_bytes <= MOST_SHARED_BYTES:
        given = f"{launch.dynamic_shared_bytes:,} by {step.shared.text!r}"
        _refuse(step.shared.place, f"shared is {given} bytes, the most are {MOST_SHARED_BYTES:,}")


def _refuse(place: Place, text: str) -> None:
    raise Misdeclared([Mistake(place, text)])
