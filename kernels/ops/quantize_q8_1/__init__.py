"""quantize_q8_1: rows of n float32 activations to blocks of 32 signed bytes and a scale: what dp4a reads."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Case, Layout, Shape
from kernels.op import Axis, JudgedOp, LaunchKernel, Operand, Step, Truth, Vector, Workload
from kernels.ops import _q8_1
from kernels.ops._linear import INT32_MAX, STRUCTURED
from kernels.ops._vectors import refuses_vectors

# What the family `specials` makes of a single row, by its number of blocks: exact halves of a step (d is 1),
# or all of it scaled so that d is subnormal, its inverse overflows float32, or d itself overflows float16. Of
# several rows, some have NaN, Inf or 2^120 in one of their blocks.
HALVES = (127.0, 0.5, -0.5, 1.5, 2.5, -2.5, 126.5, -126.5)
EXPONENTS = (-122, -130, 100)


class QuantizeQ8_1(JudgedOp):
    name = "quantize_q8_1"
    axes = (Axis("n"), Axis("rows", 1))

    def refuses(self, case: Case) -> str:
        n, rows = case.shape["n"], case.shape["rows"]
        if reason := refuses_vectors(case, n, rows):
            return reason
        if n % _q8_1.ELEMENTS:
            padded = -(-n // _q8_1.ELEMENTS) * _q8_1.ELEMENTS
            return f"n {n} is not a whole number of q8_1's {_q8_1.ELEMENTS}-element blocks; pad to {padded}"
        if (blocks := rows * n // _q8_1.ELEMENTS) > INT32_MAX:
            return f"{blocks} blocks are past int32's {INT32_MAX}, the type of the kernel's arguments"
        return ""

    def operands(self, case: Case) -> tuple[Operand, ...]:
        n, rows = case.shape["n"], case.shape["rows"]
        if rows > 1:
            return (Vector("x", (rows, n)),)
        turn = n // _q8_1.ELEMENTS % (1 + len(EXPONENTS))
        if turn == 0:
            return (Vector("x", (rows, n), specials=HALVES),)
        return (Vector("x", (rows, n), exponents=(EXPONENTS[turn - 1],)),)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        return (
            Workload(Shape.of(n=96, rows=21), (*STRUCTURED, "heavy_tailed"), repeats=3),
            Workload(Shape.of(n=288, rows=1), (*STRUCTURED, "large")),
            Workload(Shape.of(n=32, rows=1), ("ordinary", "specials")),
            Workload(Shape.of(n=64, rows=1), ("ordinary", "specials")),
            Workload(Shape.of(n=96, rows=1), ("ordinary", "specials")),
            Workload(Shape.of(n=256, rows=1), ("ordinary", "specials")),  # a whole thread block
            Workload(Shape.of(n=1024, rows=3), layout=Layout(x_offset=16)),
            Workload(Shape.of(n=160, rows=5), layout=Layout(x_offset=4, x_slack=32)),
            Workload(Shape.of(n=4096, rows=1)),
        )

    def out_shape(self, case: Case) -> tuple[int, ...]:
        return case.shape["rows"], _q8_1.row_bytes(case.shape["n"])

    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        """Byte for byte: the oracle's where float64 is sure of them, the twin's at the few other places."""
        want, unsure = _q8_1.oracle(step.arrays["x"])
        return Truth(want, np.zeros(want.shape), unsure)


OP = QuantizeQ8_1()
