"""matvec/ladder_v4: as ladder_v3, with float16 scales and two sums a lane, one for each half of a tile."""

from __future__ import annotations

import numpy as np

from kernels.kind import WARP, Kind
from kernels.op import Step, ceil_div
from kernels.ops._linear import halved
from kernels.ops.matvec._ladder import ELEMENTS, SHUFFLES, TILE, Rung, dealt, terms
from kernels.ops.matvec.ladder_v3 import STRIDE

TURNS = TILE // WARP  # sums of a lane


class LadderV4(Rung):
    name = "ladder_v4"
    body = "ladder_v4.cu"
    packing = "q4_interleaved_f16"
    static_shared_bytes = 4 * TILE * STRIDE

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return super().constants(kind) | {"STRIDE": STRIDE}

    def chain(self, step: Step) -> int:
        blocks = step.arrays["x"].shape[-1] // ELEMENTS
        return ELEMENTS * ceil_div(blocks, TILE) + TURNS - 1 + SHUFFLES

    def sums(self, kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        blocks = terms(kind, rows, x)
        return halved(dealt(blocks, WARP, TURNS, 0) + dealt(blocks, WARP, TURNS, 1))


KERNEL = LadderV4()
