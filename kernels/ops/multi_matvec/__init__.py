"""multi_matvec: q_out = Q x, k_out = K x, v_out = V x; one x, and matrices of kinds of their own."""

from __future__ import annotations

from kernels import registry, tensor_scale
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, Matrix, Op, Operand, RowsCols, Vector, Workload
from kernels.ops._edges import EVERY_FAMILY, LAYOUTS
from kernels.ops._linear import STRUCTURED, refuses_dtypes, refuses_linear


class MultiMatvec(Op):
    name = "multi_matvec"
    axes = (Axis("q_rows"), Axis("kv_rows"), Axis("cols"))
    matrices = ("q", "k", "v")
    mixes = (("Q4_K", "Q4_K", "Q6_K"),)  # what Q4_K_M files have
    layer = ("attn_q", "attn_k", "attn_v")

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        return tensor_scale.scalars(self.matrices, kinds)

    def refuses(self, case: Case) -> str:
        for matrix in self._matrices(case):
            if reason := refuses_linear(matrix.kind, matrix.rows, matrix.cols, case.layout):
                return f"{matrix.name}: {reason}"
        return refuses_dtypes(case)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        return *self._matrices(case), Vector("x", (case.shape["cols"],))

    def _matrices(self, case: Case) -> tuple[Matrix, ...]:
        rows = (case.shape["q_rows"], case.shape["kv_rows"], case.shape["kv_rows"])
        return tuple(
            Matrix(name, registry.kind(kind), count, case.shape["cols"])
            for name, kind, count in zip(self.matrices, case.kinds, rows, strict=True)
        )

    def shape_of(self, sizes: tuple[RowsCols, ...]) -> Shape | None:
        (q_rows, cols), (kv_rows, _), _ = sizes
        fits = sizes == ((q_rows, cols), (kv_rows, cols), (kv_rows, cols))
        return Shape.of(q_rows=q_rows, kv_rows=kv_rows, cols=cols) if fits else None

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = max(kind.elements for kind in kinds)

        def shape(q_rows: int, kv_rows: int, blocks: int) -> Shape:
            return Shape.of(q_rows=q_rows, kv_rows=kv_rows, cols=blocks * size)

        return (
            Workload(shape(9, 5, 3), STRUCTURED, repeats=3),
            Workload(shape(17, 9, 1), STRUCTURED),
            Workload(shape(1, 1, 1)),
            Workload(shape(3, 7, 2)),  # more of K and V than of Q: no launch may take another's rows
            Workload(shape(33, 1, 5)),
            Workload(shape(7, 3, 3), layout=Layout(row_padding=64)),
            Workload(shape(8, 2, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(16, 8, 1), layout=Layout(x_slack=32)),
        )

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = max(kind.elements for kind in kinds)
        small = Shape.of(q_rows=37, kv_rows=9, cols=5 * size)
        return (
            Workload(small, EVERY_FAMILY),
            Workload(Shape.of(q_rows=65, kv_rows=7, cols=257 * size)),
            *(Workload(small, layout=layout) for layout in LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        rows = sorted((rows for rows, cols in model.attention if cols == model.hidden), reverse=True)
        return (Workload(Shape.of(q_rows=rows[0], kv_rows=rows[-1], cols=model.hidden)),)


OP = MultiMatvec()
