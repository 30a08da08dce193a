"""matvec/ladder_v1: a thread block per row, a thread per block of 32 weights, a tree in shared memory."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.op import Step, ceil_div
from kernels.ops._linear import halved
from kernels.ops.matvec._ladder import ELEMENTS, THREADS, TREE, Rung, dealt, terms


class LadderV1(Rung):
    name = "ladder_v1"
    body = "ladder_v1.cu"
    packing = "q4_interleaved_f32"
    static_shared_bytes = 4 * THREADS

    def blocks_for(self, rows: int) -> int:
        return rows

    def chain(self, step: Step) -> int:
        blocks = step.arrays["x"].shape[-1] // ELEMENTS
        return ELEMENTS * ceil_div(blocks, THREADS) + TREE

    def sums(self, kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        return halved(dealt(terms(kind, rows, x), THREADS))


KERNEL = LadderV1()
