"""mul_mat_id: out[token, slot, row] = sum over cols of W[ids[token, slot], row, col] * x[token, …, col].

A mixture of experts: W are experts of equal size, quantized, one behind the other; ids say which expert a
token's slot takes. gate and up read one x a token (x_rows 1), down reads one a slot (x_rows top_k).
"""

from __future__ import annotations

import numpy as np

from kernels import compare, oracle, registry, tensor_scale
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, Ids, JudgedOp, LaunchKernel, Matrix, Operand, Step, Truth, Vector, Workload
from kernels.ops import _edges
from kernels.ops._linear import INT32_MAX, STRUCTURED, refuses_dtypes, refuses_layout, refuses_shape
from kernels.ops.mul_mat_id._launch import by_expert

EDGE_EXPERTS = (1, 2, 3, 8, 9, 128, 257)


class MulMatId(JudgedOp):
    name = "mul_mat_id"
    axes = (Axis("rows"), Axis("cols"), Axis("experts"), Axis("top_k"), Axis("tokens"), Axis("x_rows", 1))
    matrices = ("weights",)

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        return tensor_scale.scalars(self.matrices, kinds)

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        rows, cols = case.shape["rows"], case.shape["cols"]
        return (
            _refuses_empty(case.shape)
            or refuses_shape(kind, rows, cols)
            or _refuses_routing(case.shape)
            or refuses_layout(case.layout)
            or refuses_dtypes(case)
        )

    def operands(self, case: Case) -> tuple[Operand, ...]:
        rows, cols, experts, top_k, tokens, x_rows = (case.shape[axis.name] for axis in self.axes)
        weights = Matrix("weights", registry.kind(case.kinds[0]), experts * rows, cols, experts)
        return weights, Vector("x", (tokens, x_rows, cols)), Ids("ids", (tokens, top_k), experts)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int, experts: int, top_k: int, tokens: int, x_rows: int = 1) -> Shape:
            return Shape.of(
                rows=rows, cols=blocks * size, experts=experts, top_k=top_k, tokens=tokens, x_rows=x_rows
            )

        return (
            Workload(shape(3, 3, 4, 2, 3), STRUCTURED, repeats=3),
            Workload(shape(5, 1, 3, 2, 4, x_rows=2), STRUCTURED),
            Workload(shape(256, 1, 1, 1, 1), ("extreme",)),  # every E8M0 byte, a row each
            Workload(shape(1, 1, 1, 1, 1)),
            Workload(shape(40, 1, 1, 1, 1), ("specials",)),  # every special scale in a row of its own
            Workload(shape(1, 257, 2, 2, 1)),  # a block of 256 threads takes a second turn
            Workload(shape(9, 2, 8, 3, 2, x_rows=3)),
            Workload(shape(7, 3, 3, 1, 5), layout=Layout(row_padding=64)),
            Workload(shape(8, 2, 2, 2, 2), layout=Layout(weights_offset=16, x_offset=16)),
            Workload(shape(2, 1, 33, 8, 2, x_rows=8), layout=Layout(x_slack=32)),
        )

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        size = kinds[0].elements

        def shape(rows: int, blocks: int, experts: int, top_k: int, tokens: int, x_rows: int = 1) -> Shape:
            return Shape.of(
                rows=rows, cols=blocks * size, experts=experts, top_k=top_k, tokens=tokens, x_rows=x_rows
            )

        small = shape(9, 5, 6, 3, 4)
        return (
            Workload(small, _edges.EVERY_FAMILY),
            Workload(shape(9, 5, 6, 3, 4, x_rows=3), _edges.EVERY_FAMILY),
            *(Workload(shape(rows, 3, 4, 2, 3), ("ordinary", "onehot")) for rows in _edges.ROWS),
            *(Workload(shape(3, blocks, 4, 2, 3), ("ordinary", "onehot")) for blocks in _edges.BLOCKS),
            *(Workload(shape(3, 1, experts, min(8, experts), 5)) for experts in EDGE_EXPERTS),
            *(Workload(shape(1, 1, 2, 1, tokens)) for tokens in _edges.MANY_ROWS),
            Workload(shape(65536, 1, 2, 1, 1), ("ordinary", "last_row")),
            *(Workload(small, layout=layout) for layout in _edges.LAYOUTS),
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        """gate or up, then down, of one token and of a few."""
        routing = {"experts": model.experts, "top_k": model.top_k}
        sizes = ((model.inner, model.hidden, 1), (model.hidden, model.inner, model.top_k))
        return tuple(
            Workload(Shape.of(rows=rows, cols=cols, **routing, tokens=tokens, x_rows=x_rows))
            for rows, cols, x_rows in (sizes if model.experts else ())
            for tokens in (1, 4)
        )

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        cols, rows = 16 * 256, 4
        routing = {"top_k": 2, "tokens": 1, "x_rows": 1}
        last = [_edges.rows_past(kinds[0], cols, nbytes) // rows + 1 for nbytes in (2**31, 2**32)]
        too_many = {"experts": 1, "top_k": 1, "tokens": 2**14 + 1, "x_rows": 1}  # outputs: refused by name
        return (
            *(
                Workload(Shape.of(rows=rows, cols=cols, experts=count, **routing), ("last_row",))
                for count in last
            ),
            Workload(Shape.of(rows=2**20, cols=kinds[0].elements, **too_many)),
        )

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        kind, x = step.kind, step.arrays["x"].astype(np.float64)
        assert kind is not None
        want = by_expert(step, x, lambda rows, xs: oracle.dot(oracle.weights(kind, rows), xs))
        sizes = by_expert(
            step,
            np.abs(x),
            lambda rows, xs: oracle.dot(oracle.magnitudes(kind, rows, kernel.arithmetic), xs),
        )
        return kernel.held_to(
            step, compare.linear_truth(want, sizes, kernel.chain(step), step, products=x.shape[-1])
        )

    def factors(self, step: Step, index: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        token, slot, row = index
        number = int(step.arrays["ids"][token, slot]) * int(step.scalars["rows"]) + row
        xs = step.arrays["x"][token]
        return step.arrays["weights"][number : number + 1], xs[slot % len(xs)]

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["tokens"], case.shape["top_k"], case.shape["rows"]


def _refuses_empty(shape: Shape) -> str:
    if min(size for _, size in shape.axes) > 0:
        return ""
    sizes = ", ".join(f"{name} {size}" for name, size in shape.axes)
    return f"empty: got {sizes}; want each at least 1"


def _refuses_routing(shape: Shape) -> str:
    """Sizes past int32, more slots than experts, and an x that is neither a token's nor a slot's."""
    experts, top_k, tokens, x_rows = (shape[name] for name in ("experts", "top_k", "tokens", "x_rows"))
    largest = max(experts, top_k, tokens)
    if largest > INT32_MAX:
        return f"size {largest} is past int32's {INT32_MAX}, the type of the kernel's arguments and of ids"
    if top_k > experts:
        return f"top_k: got {top_k}, want at most the {experts} experts, of which a token takes each once"
    if x_rows not in (1, top_k):
        return f"x_rows: got {x_rows}, want 1, a token's x for all its slots, or top_k {top_k}, one a slot"
    return ""


OP = MulMatId()
