"""mul_mm: out[token, row] = sum over cols of W[row, col] * x[token, col], W quantized, x and out float32."""

from __future__ import annotations

import numpy as np

from kernels import compare, oracle, registry
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.op import Axis, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops._linear import STRUCTURED, refuses_dtypes, refuses_linear


class MulMm(JudgedOp):
    name = "mul_mm"
    axes = (Axis("rows"), Axis("cols"), Axis("batch"))
    matrices = ("weights",)

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        return refuses_linear(kind, rows, cols, case.layout, batch) or refuses_dtypes(case)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        return Matrix("weights", registry.kind(case.kinds[0]), rows, cols), Vector("x", (batch, cols))

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int, batch: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size, batch=batch)

        return (
            Workload(shape(5, 3, 33), STRUCTURED, repeats=3),
            Workload(shape(9, 1, 3), STRUCTURED),
            Workload(shape(40, 1, 1), ("specials",)),  # every special scale in a row of its own
            Workload(shape(65, 1, 129)),  # a second tile both ways
            Workload(shape(64, 2, 128)),  # whole tiles
            Workload(shape(128, 1, 256)),  # two whole tiles both ways: none may start too early
            Workload(shape(71, 5, 1)),
            Workload(shape(1, 257, 2)),
            Workload(shape(7, 3, 31), layout=Layout(row_padding=64)),
            Workload(shape(8, 2, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(63, 1, 127), layout=Layout(x_slack=32)),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["batch"], case.shape["rows"]

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        assert step.kind is not None
        weights = step.arrays["weights"]
        x = step.arrays["x"].astype(np.float64)  # (batch, cols)
        want = oracle.dot(oracle.weights(step.kind, weights), x)
        scale = oracle.dot(oracle.magnitudes(step.kind, weights, kernel.arithmetic), np.abs(x))
        return compare.linear_truth(want, scale, kernel.chain(step), step, products=x.shape[1])


OP = MulMm()
