"""rmsnorm: out[row] = x[row] * rsqrt(mean(x[row]^2) + eps) * weights."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import PREFILL, Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Operand, Step, Truth, Vector, Workload
from kernels.ops._edges import MANY_ROWS, ON_ACTIVATIONS
from kernels.ops._linear import STRUCTURED
from kernels.ops._norm import EDGE_LENGTHS, EPS, NO_EPS, SMALL_EPS, exponents, norm_truth
from kernels.ops._vectors import refuses_vectors


class RmsNorm(JudgedOp):
    name = "rmsnorm"
    axes = (Axis("n"), Axis("rows", 1))
    scalars = EPS

    def refuses(self, case: Case) -> str:
        return refuses_vectors(case, case.shape["n"], case.shape["rows"])

    def operands(self, case: Case) -> tuple[Operand, ...]:
        n, rows = case.shape["n"], case.shape["rows"]
        x = Vector("x", (rows, n), exponents=exponents(n))
        return x, Vector("weights", (n,), weights=True)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(Shape.of(n=257, rows=3), (*STRUCTURED, "heavy_tailed"), repeats=3),
            Workload(Shape.of(n=768, rows=7), (*STRUCTURED, "large"), scalars=SMALL_EPS),
            Workload(Shape.of(n=1, rows=1)),
            Workload(Shape.of(n=127, rows=1), scalars=NO_EPS),
            Workload(Shape.of(n=128, rows=1), scalars=SMALL_EPS),
            Workload(Shape.of(n=255, rows=5), layout=Layout(x_offset=4, x_slack=32)),
            Workload(Shape.of(n=256, rows=2), ("ordinary", "specials"), Layout(x_offset=16), scalars=NO_EPS),
            Workload(Shape.of(n=2880, rows=1)),
            Workload(Shape.of(n=3072, rows=1), scalars=SMALL_EPS),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["rows"], case.shape["n"]

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        lengths = (
            Workload(Shape.of(n=n, rows=3), ON_ACTIVATIONS, scalars=eps)
            for n in EDGE_LENGTHS
            for eps in (EPS, SMALL_EPS, NO_EPS)
        )
        return (*lengths, *(Workload(Shape.of(n=33, rows=rows)) for rows in MANY_ROWS))

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return tuple(Workload(Shape.of(n=model.hidden, rows=rows), scalars=EPS) for rows in (1, PREFILL))

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (Workload(Shape.of(n=8192, rows=65537)),)  # byte offsets past int32

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        x, weights = (step.arrays[name].astype(np.float64) for name in ("x", "weights"))
        return norm_truth(x, weights, step.scalars["eps"], kernel.chain(step))


OP = RmsNorm()
