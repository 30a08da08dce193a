"""What bounds a kernel on a board before anybody ran it there: by bytes, machine code and data sheet alone.

predicted(case, builds, gpu) -> Floor      # pure; it says nothing about how fast the kernel is

Memory is taken at the data sheet's rate, of which copies reach some nine tenths, and the clock at its boost;
a benchmark measures both. What isn't known bounds nothing here, so that a share is the most there can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farm.targets import TargetGpu
from kernels import registry
from kernels.benchmark import Limit
from kernels.built import BuildRecord
from kernels.limits import Board, by_memory, limits
from kernels.model import Case
from workers.effort import bytes_of
from workers.work import work_of

MEMORY = "memory"
SHEET = "data sheet"


@dataclass(frozen=True)
class Floor:
    """What a pass can't be faster than on one GPU."""

    gpu: TargetGpu
    limits: tuple[Limit, ...]  # memory first

    @property
    def least(self) -> Limit:
        """The limit that takes longest."""
        return max(self.limits, key=lambda limit: limit.pass_us)

    @property
    def of_memory(self) -> float:
        """The share of the data sheet's bandwidth that the least limit leaves; 1 where that is memory."""
        return self.limits[0].pass_us / self.least.pass_us


def predicted(case: Case, builds: Sequence[BuildRecord], gpu: TargetGpu) -> Floor:
    """The limits of one pass of a case; the builds are those of its launches for the GPU's architecture."""
    nbytes = bytes_of(registry.kernel(f"{case.op}/{case.kernel}").plan(case))
    board = Board(int(gpu.sm.removeprefix("sm_")), gpu.sms, gpu.boost_mhz, SHEET)
    memory = by_memory(MEMORY, nbytes, gpu.bandwidth_gbs * 1000, SHEET)
    return Floor(gpu, (memory, *limits(work_of(case, nbytes, builds), board)))
