"""What keeps a kernel from being faster: memory, instruction issue, L1 traffic, arithmetic. Pure figures.

An SM issues 32 lanes from each of four schedulers a clock, two on sm_60, and its L1 hands out 128 bytes a
clock from sm_70 on (NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities"; the tuning guides of Volta to
Blackwell); it multiplies and adds in 64 or 128 float32 lanes ("Arithmetic Instructions").
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.benchmark import Limit

ISSUED_LANES = {60: 64}  # of an SM a clock; 128 unless named
FMA_LANES = {60: 64, 70: 64, 72: 64, 75: 64, 80: 64}  # 128 unless named
# Dense float16 products added in float32, an SM a clock, of an architecture's fastest boards (NVIDIA's white
# papers of GA100, GA102, AD102 and GH100); consumer boards of sm_86 and sm_89 have half. Others aren't known.
TENSOR_MACS = {80: 1024, 86: 512, 89: 512, 90: 2048}
L1_BYTES = 128  # of an SM a clock
L1_FROM = 70  # sm whose L1 is known


@dataclass(frozen=True)
class Work:
    """What one pass has to do."""

    nbytes: int  # read and written at least
    weights: int = 0  # decoded; 0 where there are none
    macs: int = 0  # multiply-adds in float32's lanes
    instructions_per_weight: float | None = None  # of a lane, by the machine code of the build that ran
    l1_bytes_per_weight: float | None = None  # of activations, through L1
    tensor_macs: int = 0  # multiply-adds in float16's tensor cores


@dataclass(frozen=True)
class Board:
    """What a board has to give; 0 where it isn't known."""

    sm: int  # 86
    sms: int = 0
    clock_mhz: float = 0.0
    basis: str = ""  # where SMs and clock are from


def limits(work: Work, board: Board) -> tuple[Limit, ...]:
    """Those that can be worked out; what memory allows is measured, not worked out."""
    clocks_per_us = board.sms * board.clock_mhz
    found: list[Limit] = []

    def add(name: str, amount: float | None, per_clock: int) -> None:
        if amount and clocks_per_us:
            found.append(Limit(name, amount / (per_clock * clocks_per_us), board.basis))

    per_weight = work.instructions_per_weight
    add("issue", per_weight and per_weight * work.weights, ISSUED_LANES.get(board.sm, 128))
    if board.sm >= L1_FROM:
        add("L1", work.l1_bytes_per_weight and work.l1_bytes_per_weight * work.weights, L1_BYTES)
    add("fma", float(work.macs), FMA_LANES.get(board.sm, 128))
    if board.sm in TENSOR_MACS:
        add("tensor", float(work.tensor_macs), TENSOR_MACS[board.sm])
    return tuple(found)


def by_memory(name: str, nbytes: int, bytes_per_us: float, basis: str) -> Limit:
    """What moving so many bytes takes at that rate."""
    return Limit(name, nbytes / bytes_per_us, basis)
