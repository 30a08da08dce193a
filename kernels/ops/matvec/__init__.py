"""matvec: out[row] = sum over cols of W[row, col] * x[col], W quantized, x and out float32."""

from __future__ import annotations

import numpy as np

from kernels import compare, oracle, registry, tensor_scale
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops import _edges, _q8_1
from kernels.ops._linear import NARROW, STRUCTURED, refuses_dtypes, refuses_linear


class Matvec(JudgedOp):
    name = "matvec"
    axes = (Axis("rows"), Axis("cols"))
    matrices = ("weights",)
    row_wise = True

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        return tensor_scale.scalars(self.matrices, kinds)

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        rows, cols = case.shape["rows"], case.shape["cols"]
        return refuses_dtypes(case) or refuses_linear(kind, rows, cols, case.layout, x_dtype=case.x_dtype)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols = case.shape["rows"], case.shape["cols"]
        x = Vector("x", (cols,), dtype=case.x_dtype)
        return Matrix("weights", registry.kind(case.kinds[0]), rows, cols), x

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size, least = (
            kinds[0].elements,
            kinds[0].lane_align,
        )  # bytes off an aligned base that all take

        def shape(rows: int, blocks: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size)

        return (
            Workload(shape(9, 5), (*STRUCTURED, "heavy_tailed"), repeats=3, narrow=NARROW),
            Workload(shape(17, 3), (*STRUCTURED, "large"), narrow=("large",)),
            Workload(shape(256, 1), ("extreme",), narrow=()),  # every E8M0 byte, a row each
            Workload(shape(1, 1), narrow=()),
            Workload(shape(40, 1), ("specials",)),  # every special scale in a row of its own: none is drowned
            Workload(shape(3, 257)),  # a block of 256 threads takes a second turn
            Workload(shape(37, 27), narrow=()),
            Workload(shape(7, 3), layout=Layout(row_padding=64), narrow=()),
            Workload(shape(8, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(7, 2), layout=Layout(weights_offset=least), narrow=()),
            Workload(shape(65, 3), narrow=()),
            Workload(shape(71, 1), layout=Layout(x_slack=32)),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return (case.shape["rows"],)

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int) -> Shape:
            return Shape.of(rows=rows, cols=blocks * size)

        return (
            Workload(shape(37, 27), _edges.EVERY_FAMILY),
            Workload(shape(_edges.EXTREME_ROWS, 1), ("extreme",)),
            *(Workload(shape(rows, 3), ("ordinary", "onehot")) for rows in _edges.ROWS),
            *(Workload(shape(9, blocks), ("ordinary", "onehot")) for blocks in _edges.BLOCKS),
            *(Workload(shape(rows, 1), ("ordinary", "last_row")) for rows in _edges.MANY_ROWS),
            *(Workload(Shape.of(rows=9, cols=cols)) for cols in _edges.COLS),
            *(Workload(shape(9, 5), layout=layout) for layout in _edges.LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return tuple(Workload(Shape.of(rows=rows, cols=cols)) for rows, cols in (*model.layer, model.head))

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        cols = 16 * 256
        rows = [_edges.rows_past(kinds[0], cols, nbytes) for nbytes in (2**31, 2**32)]
        return tuple(Workload(Shape.of(rows=count, cols=cols), ("last_row",), narrow=()) for count in rows)

    def factors(self, step: Step, index: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        weights, x = super().factors(step, index)
        return weights, _q8_1.values(x) if x.dtype == np.uint8 else x

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        assert step.kind is not None
        weights = step.arrays["weights"]
        x = step.arrays["x"].astype(np.float64)
        want, scale = oracle.sums(step.kind, weights, x, kernel.arithmetic)
        return kernel.held_to(
            step, compare.linear_truth(want, scale, kernel.chain(step), step, products=len(x))
        )


OP = Matvec()
