"""gemm: out[token, row] = sum over cols of W[row, col] * x[token, col], W and x float16, out float32.

y[m, n] = x[m, k] W[n, k]^T, where m is the batch, n the rows and k the cols.
"""

from __future__ import annotations

import numpy as np

from kernels import compare, oracle, registry
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import PREFILL, Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops import _edges
from kernels.ops._linear import STRUCTURED, refuses_dtypes, refuses_linear

EDGE_BATCHES = (1, 2, 3, 31, 33, 127, 512)


class Gemm(JudgedOp):
    name = "gemm"
    axes = (Axis("rows"), Axis("cols"), Axis("batch"))
    matrices = ("weights",)
    row_wise = True

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        return refuses_dtypes(case) or refuses_linear(kind, rows, cols, case.layout, batch, case.x_dtype)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        x = Vector("x", (batch, cols), dtype=case.x_dtype)
        return Matrix("weights", registry.kind(case.kinds[0]), rows, cols), x

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(_shape(kinds[0], 5, 3, 33), STRUCTURED, repeats=3),
            Workload(_shape(kinds[0], 9, 1, 3), STRUCTURED),
            Workload(_shape(kinds[0], 1, 1, 1)),
            Workload(_shape(kinds[0], 37, 27, 1)),  # a vector, for which libraries have routines of their own
            Workload(_shape(kinds[0], 1, 257, 2)),
            Workload(_shape(kinds[0], 65, 5, 129)),
            Workload(_shape(kinds[0], 7, 3, 31), layout=Layout(row_padding=64)),
            Workload(_shape(kinds[0], 8, 2, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(_shape(kinds[0], 63, 1, 127), layout=Layout(x_slack=32)),
        )

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(_shape(kinds[0], 37, 27, 33), _edges.ON_ACTIVATIONS),
            *(Workload(_shape(kinds[0], rows, 3, 33)) for rows in _edges.ROWS),
            *(Workload(_shape(kinds[0], 9, blocks, 33)) for blocks in _edges.BLOCKS),
            *(Workload(_shape(kinds[0], 9, 3, batch), ("ordinary", "onehot")) for batch in EDGE_BATCHES),
            *(Workload(_shape(kinds[0], 9, 5, 3), layout=layout) for layout in _edges.LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return tuple(Workload(Shape.of(rows=rows, cols=cols, batch=PREFILL)) for rows, cols in model.layer)

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        """The bound holds for additions in any order, those of a library too."""
        assert step.kind is not None
        x = step.arrays["x"].astype(np.float64)  # (batch, cols)
        want, scale = oracle.sums(step.kind, step.arrays["weights"], x, kernel.arithmetic)
        return compare.linear_truth(want, scale, kernel.chain(step), step, products=x.shape[1])

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["batch"], case.shape["rows"]


def _shape(kind: Kind, rows: int, blocks: int, batch: int) -> Shape:
    return Shape.of(rows=rows, cols=blocks * kind.elements, batch=batch)


OP = Gemm()
