"""matvec/block: one thread block per row, a thread per super-block, a tree reduction in shared memory."""

import numpy as np

from kernels.kind import Kind
from kernels.model import Case, Launch, Plan
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops.matvec import matvec_args, matvec_plan

THREADS = 256


class Block(LaunchKernel):
    op = "matvec"
    name = "block"
    body = "block.cu"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def launch(self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str]) -> Launch:
        """One launch over the buffers that `names` gives for weights, x and out."""
        grid, block = flat(rows, THREADS)
        args = matvec_args(rows, cols, row_bytes, names)
        return Launch(self.id, kind, self.entry(kind), args, grid, block, dynamic_shared_bytes=4 * THREADS)

    def plan(self, case: Case) -> Plan:
        return matvec_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        assert step.kind is not None
        blocks = step.arrays["x"].shape[-1] // step.kind.elements
        return step.kind.elements * ceil_div(blocks, THREADS) + 8

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32: per-thread sums in element order, then halving tree 128, 64, … 1."""
        assert step.kind is not None
        w = step.kind.weights(step.arrays["weights"])  # (rows, cols)
        products = w * step.arrays["x"][None, :]
        size = step.kind.elements
        blocks = products.reshape(len(w), -1, size)
        sums = np.zeros((len(w), THREADS), np.float32)
        for first in range(0, blocks.shape[1], THREADS):
            part = blocks[:, first : first + THREADS]
            for i in range(size):
                sums[:, : part.shape[1]] += part[:, :, i]
        half = THREADS // 2
        while half:
            sums[:, :half] += sums[:, half : 2 * half]
            half //= 2
        return sums[:, 0].copy()


KERNEL = Block()
