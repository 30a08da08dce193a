"""matvec/ladder_v2: a warp per row, a lane per block of 32 weights."""

from __future__ import annotations

import numpy as np

from kernels.kind import WARP, Kind
from kernels.op import Step, ceil_div
from kernels.ops._linear import halved
from kernels.ops.matvec._ladder import ELEMENTS, SHUFFLES, Rung, dealt, terms


class LadderV2(Rung):
    name = "ladder_v2"
    body = "ladder_v2.cu"
    packing = "q4_interleaved_f32"

    def chain(self, step: Step) -> int:
        blocks = step.arrays["x"].shape[-1] // ELEMENTS
        return ELEMENTS * ceil_div(blocks, WARP) + SHUFFLES

    def sums(self, kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        return halved(dealt(terms(kind, rows, x), WARP))


KERNEL = LadderV2()
