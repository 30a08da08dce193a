"""ffn: out = down(silu(gate(x)) * up(x)), three quantized matrices, each of a kind of its own (SwiGLU)."""

from __future__ import annotations

from kernels import registry, tensor_scale
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, Matrix, Op, Operand, RowsCols, Vector, Workload
from kernels.ops._edges import EVERY_FAMILY, LAYOUTS
from kernels.ops._linear import STRUCTURED, refuses_dtypes, refuses_linear


class Ffn(Op):
    name = "ffn"
    axes = (Axis("hidden"), Axis("inner"))
    matrices = ("gate", "up", "down")
    mixes = (("Q4_K", "Q4_K", "Q6_K"),)  # what Q4_K_M files have
    layer = ("ffn_gate", "ffn_up", "ffn_down")

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        return tensor_scale.scalars(self.matrices, kinds)

    def refuses(self, case: Case) -> str:
        for matrix in self._matrices(case):
            if reason := refuses_linear(matrix.kind, matrix.rows, matrix.cols, case.layout):
                return f"{matrix.name}: {reason}"
        return refuses_dtypes(case)

    def operands(self, case: Case) -> tuple[Operand, ...]:
        return *self._matrices(case), Vector("x", (case.shape["hidden"],))

    def _matrices(self, case: Case) -> tuple[Matrix, ...]:
        hidden, inner = case.shape["hidden"], case.shape["inner"]
        sizes = ((inner, hidden), (inner, hidden), (hidden, inner))
        return tuple(
            Matrix(name, registry.kind(kind), rows, cols)
            for name, kind, (rows, cols) in zip(self.matrices, case.kinds, sizes, strict=True)
        )

    def shape_of(self, sizes: tuple[RowsCols, ...]) -> Shape | None:
        inner, hidden = sizes[0]
        fits = sizes == ((inner, hidden), (inner, hidden), (hidden, inner))
        return Shape.of(hidden=hidden, inner=inner) if fits else None

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = max(kind.elements for kind in kinds)

        def shape(hidden: int, inner: int) -> Shape:
            return Shape.of(hidden=hidden * size, inner=inner * size)

        return (
            Workload(shape(1, 1), STRUCTURED, repeats=3),
            Workload(shape(2, 1), STRUCTURED),
            Workload(shape(1, 2)),
            Workload(shape(3, 1)),
            Workload(shape(1, 3)),
            Workload(shape(2, 2), layout=Layout(x_slack=32)),
            Workload(shape(3, 2), layout=Layout(row_padding=64)),
            Workload(shape(4, 1), layout=Layout(weights_offset=16, x_offset=16)),
        )

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = max(kind.elements for kind in kinds)
        small = Shape.of(hidden=3 * size, inner=2 * size)
        return (
            Workload(small, EVERY_FAMILY),
            Workload(Shape.of(hidden=9 * size, inner=27 * size)),
            Workload(Shape.of(hidden=64, inner=96)),
            *(Workload(small, layout=layout) for layout in LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return (Workload(Shape.of(hidden=model.hidden, inner=model.inner)),)


OP = Ffn()
