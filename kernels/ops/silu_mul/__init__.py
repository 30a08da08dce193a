"""silu_mul: out[i] = gate[i] / (1 + exp(-gate[i])) * up[i], the activation of a SwiGLU."""

from __future__ import annotations

import math

import numpy as np

from kernels import compare
from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.models import Model
from kernels.op import Axis, JudgedOp, LaunchKernel, Operand, Step, Truth, Vector, Workload
from kernels.ops._edges import MANY_ROWS, ON_ACTIVATIONS
from kernels.ops._linear import STRUCTURED
from kernels.ops._vectors import OVERFLOW, leaves_float32, refuses_vectors

# exp(-g) overflows float32 below -88.7, 1 / (1 + exp(-g)) underflows below -87.3, everything does below -104.
SPECIALS = (0.0, -0.0, 88.0, -88.0, 89.0, -89.0, 104.0, -104.0, math.inf, -math.inf, math.nan)


class SiluMul(JudgedOp):
    name = "silu_mul"
    axes = (Axis("n"),)

    def refuses(self, case: Case) -> str:
        return refuses_vectors(case, case.shape["n"])

    def operands(self, case: Case) -> tuple[Operand, ...]:
        shape = (case.shape["n"],)
        return Vector("gate", shape, specials=SPECIALS), Vector("up", shape)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(Shape.of(n=257), (*STRUCTURED, "large"), repeats=3),
            Workload(Shape.of(n=1000), (*STRUCTURED, "heavy_tailed")),
            Workload(Shape.of(n=1)),
            Workload(Shape.of(n=255)),
            Workload(Shape.of(n=256), layout=Layout(x_offset=16)),
            Workload(Shape.of(n=513), layout=Layout(x_offset=4, x_slack=32)),
            Workload(Shape.of(n=4097)),
            Workload(Shape.of(n=11008)),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return (case.shape["n"],)

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        lengths = (1, 255, 256, 257, *MANY_ROWS)
        return tuple(Workload(Shape.of(n=n), ON_ACTIVATIONS) for n in lengths)

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        return (Workload(Shape.of(n=model.inner)),)

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (Workload(Shape.of(n=2**29 + 1)),)  # byte offsets past int32

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        gate, up = (step.arrays[name].astype(np.float64) for name in ("gate", "up"))
        with np.errstate(all="ignore"):
            power = np.exp(-gate)  # overflows float64 beyond 709, where the quotient is 0 either way
            quotient = gate / (1 + power)
            want = quotient * up
            overflows = (power >= OVERFLOW) & np.isfinite(gate)
            by_twin = overflows | leaves_float32(quotient) | leaves_float32(want)
        return compare.silu_truth(want, up, by_twin)


OP = SiluMul()
