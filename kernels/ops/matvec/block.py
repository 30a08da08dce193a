"""matvec/block: one thread block per row, a thread per super-block, a tree reduction in shared memory."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Case, Launch, Plan
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops._linear import Scale, by_rows, halved, in_order, scaled
from kernels.ops.matvec._launch import matvec_args, matvec_plan

THREADS = 256
TREE = THREADS.bit_length() - 1  # additions on the way up the tree


class Block(LaunchKernel):
    op = "matvec"
    name = "block"
    body = "block.cu"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def launch(
        self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str], scale: Scale = ()
    ) -> Launch:
        """One launch over the buffers that `names` gives for weights, x and out."""
        grid, block = flat(rows, THREADS)
        args = matvec_args(rows, cols, row_bytes, names, scale)
        return Launch(self.id, kind, self.entry(kind), args, grid, block, dynamic_shared_bytes=4 * THREADS)

    def plan(self, case: Case) -> Plan:
        return matvec_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        assert step.kind is not None
        blocks = step.arrays["x"].shape[-1] // step.kind.elements
        return step.kind.elements * ceil_div(blocks, THREADS) + TREE

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32: per-thread sums in element order, then halving tree 128, 64, … 1."""
        kind, x = step.kind, step.arrays["x"]
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            return scaled(step, by_rows(step.arrays["weights"], len(x), lambda rows: _sums(kind, rows, x)))


def _sums(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    products = (kind.weights(rows) * x).reshape(len(rows), -1, kind.elements)
    terms = products.transpose(2, 0, 1)  # (elements, rows, blocks), a thread's next term on the first axis
    sums = np.zeros((len(rows), THREADS), np.float32)
    for first in range(0, terms.shape[2], THREADS):
        turn = terms[:, :, first : first + THREADS]
        threads = turn.shape[2]
        sums[:, :threads] = in_order(turn, sums[:, :threads])
    return halved(sums)


KERNEL = Block()
