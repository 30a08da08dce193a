"""mul_mm: out[token, row] = sum over cols of W[row, col] * x[token, col], W quantized, x and out float32."""

from __future__ import annotations

import numpy as np

from kernels import compare, oracle, registry, tensor_scale
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import PREFILL, Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops import _edges
from kernels.ops._linear import NARROW, STRUCTURED, refuses_dtypes, refuses_linear

EDGE_BATCHES = (1, 2, 3, 31, 32, 33, 127, 128, 129, 133, 512)
TILES_MOST = 65535 * 64  # rows of the reference's largest grid.y
ODD_ROWS = 51865  # of a speech model's head: no multiple of anything that a block takes


class MulMm(JudgedOp):
    name = "mul_mm"
    axes = (Axis("rows"), Axis("cols"), Axis("batch"))
    matrices = ("weights",)
    row_wise = True

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        return tensor_scale.scalars(self.matrices, kinds)

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        return refuses_dtypes(case) or refuses_linear(kind, rows, cols, case.layout, batch, case.x_dtype)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols, batch = (case.shape[axis.name] for axis in self.axes)
        x = Vector("x", (batch, cols), dtype=case.x_dtype)
        return Matrix("weights", registry.kind(case.kinds[0]), rows, cols), x

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size, least = (
            kinds[0].elements,
            kinds[0].lane_align,
        )  # bytes off an aligned base that all take

        def shape(rows: int, blocks: int, batch: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size, batch=batch)

        return (
            Workload(shape(5, 3, 33), (*STRUCTURED, "heavy_tailed"), repeats=3, narrow=NARROW),
            Workload(shape(9, 1, 3), (*STRUCTURED, "large"), narrow=("large",)),
            Workload(shape(256, 1, 1), ("extreme",), narrow=()),  # every E8M0 byte, a row each
            Workload(shape(40, 1, 1), ("specials",)),  # every special scale in a row of its own
            Workload(shape(65, 1, 129)),  # a second tile both ways
            Workload(shape(64, 2, 128), narrow=()),  # whole tiles
            Workload(shape(128, 1, 256), narrow=()),  # two whole tiles both ways: none may start too early
            Workload(shape(71, 5, 1), narrow=()),
            Workload(shape(1, 257, 2)),
            Workload(shape(7, 3, 31), layout=Layout(row_padding=64), narrow=()),
            Workload(shape(8, 2, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(7, 2, 3), layout=Layout(weights_offset=least), narrow=()),
            Workload(shape(63, 1, 127), layout=Layout(x_slack=32)),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["batch"], case.shape["rows"]

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int, batch: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size, batch=batch)

        return (
            Workload(shape(37, 27, 33), _edges.EVERY_FAMILY),
            Workload(shape(_edges.EXTREME_ROWS, 1, 2), ("extreme",)),
            *(Workload(shape(rows, 3, 33)) for rows in _edges.ROWS),
            *(Workload(shape(9, blocks, 33)) for blocks in _edges.BLOCKS),
            *(Workload(shape(9, 3, batch), ("ordinary", "onehot")) for batch in EDGE_BATCHES),
            *(Workload(shape(rows, 1, 2), ("ordinary", "last_row")) for rows in _edges.MANY_ROWS),
            Workload(shape(ODD_ROWS, 1, 3)),
            *(Workload(Shape.of(rows=9, cols=cols, batch=3)) for cols in _edges.COLS),
            *(Workload(shape(9, 5, 3), layout=layout) for layout in _edges.LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return tuple(Workload(Shape.of(rows=rows, cols=cols, batch=PREFILL)) for rows, cols in model.layer)

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        cols, block = 16 * 256, kinds[0].elements
        rows = _edges.rows_past(kinds[0], cols, 2**31)
        return (
            Workload(Shape.of(rows=rows, cols=cols, batch=2), ("last_row",), narrow=()),
            Workload(Shape.of(rows=TILES_MOST, cols=block, batch=1), ("last_row",), narrow=()),
            # refused by name
            Workload(Shape.of(rows=TILES_MOST + 1, cols=block, batch=1), ("last_row",), narrow=()),
            # outputs whose number is past int32: token * rows + row; so many that they are judged by sums
            Workload(Shape.of(rows=65537, cols=256, batch=32768), narrow=()),
        )

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        assert step.kind is not None
        weights = step.arrays["weights"]
        x = step.arrays["x"].astype(np.float64)  # (batch, cols)
        want, scale = oracle.sums(step.kind, weights, x, kernel.arithmetic)
        return kernel.held_to(
            step, compare.linear_truth(want, scale, kernel.chain(step), step, products=x.shape[1])
        )


OP = MulMm()
