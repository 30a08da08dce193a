"""add_rmsnorm: v = x + residual; out = v * rsqrt(mean(v^2) + eps) * weights."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Operand, Step, Truth, Vector, Workload
from kernels.ops._edges import ON_ACTIVATIONS
from kernels.ops._linear import STRUCTURED
from kernels.ops._norm import EDGE_LENGTHS, EPS, NO_EPS, SMALL_EPS, exponents, norm_truth
from kernels.ops._vectors import refuses_vectors


class AddRmsNorm(JudgedOp):
    name = "add_rmsnorm"
    axes = (Axis("n"),)
    scalars = EPS

    def refuses(self, case: Case) -> str:
        return refuses_vectors(case, case.shape["n"])

    def operands(self, case: Case) -> tuple[Operand, ...]:
        n = case.shape["n"]
        x, residual = (Vector(name, (n,), exponents=exponents(n)) for name in ("x", "residual"))
        return x, residual, Vector("weights", (n,), weights=True)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(Shape.of(n=257), (*STRUCTURED, "heavy_tailed"), repeats=3),
            Workload(Shape.of(n=768), (*STRUCTURED, "large"), scalars=SMALL_EPS),
            Workload(Shape.of(n=1)),
            Workload(Shape.of(n=127), scalars=NO_EPS),
            Workload(Shape.of(n=128), scalars=SMALL_EPS),
            Workload(Shape.of(n=255), layout=Layout(x_offset=4, x_slack=32)),
            Workload(Shape.of(n=256), ("ordinary", "specials"), Layout(x_offset=16), scalars=NO_EPS),
            Workload(Shape.of(n=2880)),
            Workload(Shape.of(n=3072), scalars=SMALL_EPS),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return (case.shape["n"],)

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return tuple(
            Workload(Shape.of(n=n), ON_ACTIVATIONS, scalars=eps)
            for n in EDGE_LENGTHS
            for eps in (EPS, SMALL_EPS, NO_EPS)
        )

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return (Workload(Shape.of(n=model.hidden), scalars=EPS),)

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        x, residual, weights = (step.arrays[name].astype(np.float64) for name in ("x", "residual", "weights"))
        return norm_truth(x + residual, weights, step.scalars["eps"], kernel.chain(step))


OP = AddRmsNorm()
