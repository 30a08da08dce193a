"""matvec: out[row] = sum over cols of W[row, col] * x[col], W quantized, x and out float32."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernels import compare, oracle, registry
from kernels.kind import Kind
from kernels.model import Arg, Buffer, BufferArg, Case, Launch, Layout, Plan, Role, ScalarArg, Shape, packed
from kernels.op import Axis, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops._linear import refuses_linear, weights_buffer, x_buffer

STRUCTURED = ("ordinary", "tiny", "onehot", "sparse", "constant", "cancelling", "specials")


class Launcher(Protocol):
    """A matvec kernel's pairing of text and geometry, over buffers named by role."""

    def __call__(self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str]) -> Launch: ...


class Matvec(JudgedOp):
    name = "matvec"
    axes = (Axis("rows"), Axis("cols"))
    matrices = ("weights",)

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        return refuses_linear(kind, case.shape["rows"], case.shape["cols"], case.layout)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols = case.shape["rows"], case.shape["cols"]
        return Matrix("weights", registry.kind(case.kinds[0]), rows, cols), Vector("x", (cols,))

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size)

        return (
            Workload(shape(37, 27), STRUCTURED, repeats=3),
            Workload(shape(9, 5), STRUCTURED),
            Workload(shape(1, 1)),
            Workload(shape(3, 257)),
            Workload(shape(7, 3), layout=Layout(row_padding=64)),
            Workload(shape(8, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(65, 3)),
            Workload(shape(64, 8)),
            Workload(shape(71, 1), layout=Layout(x_slack=32)),
        )

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        assert step.kind is not None
        weights = step.arrays["weights"]
        x = step.arrays["x"].astype(np.float64)
        want = oracle.dot(oracle.weights(step.kind, weights), x)
        scale = oracle.dot(oracle.magnitudes(step.kind, weights, kernel.arithmetic), np.abs(x))
        return compare.linear_truth(want, scale, kernel.chain(step), step, products=len(x))


def matvec_args(rows: int, cols: int, row_bytes: int, names: dict[str, str]) -> tuple[Arg, ...]:
    """The one signature of every matvec kernel: weights, x, out, rows, cols, row_bytes."""
    return (
        BufferArg("weights", names["weights"]),
        BufferArg("x", names["x"]),
        BufferArg("out", names["out"]),
        ScalarArg("rows", "i4", rows),
        ScalarArg("cols", "i4", cols),
        ScalarArg("row_bytes", "i8", row_bytes),
    )


def matvec_plan(case: Case, launch: Launcher) -> Plan:
    """Weights, x and out with the case's layout, and one launch over them."""
    rows, cols = case.shape["rows"], case.shape["cols"]
    weights = weights_buffer("weights", registry.kind(case.kinds[0]), rows, cols, case.layout)
    out: Buffer = packed("out", (rows,), Role.OUT)
    step = launch(
        case.kinds[0], rows, cols, weights.strides[0], {"weights": "weights", "x": "x", "out": "out"}
    )
    return Plan((weights, x_buffer("x", (cols,), case.layout), out), (step,), case.build)


OP = Matvec()
