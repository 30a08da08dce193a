"""The buffers of a declared kernel: the op's inputs as built-in ones have them, its output, scratch."""

from __future__ import annotations

import math
from dataclasses import replace

from kernels import packing, registry
from kernels.declared.declaration import BUFFER_DTYPES, OUTPUT_DTYPES, Declaration, Scratch
from kernels.declared.mistake import Misdeclared, Mistake
from kernels.model import Buffer, Case, Role, packed
from kernels.op import Ids, JudgedOp, Matrix, Vector
from kernels.ops._linear import weights_buffer, x_buffer

ALIGNED = 16  # bytes that the start of every buffer is a multiple of, as far as nothing else is declared
MOST_ELEMENTS = 2**40


def inputs(declaration: Declaration, op: JudgedOp, case: Case) -> tuple[Buffer, ...]:
    """A buffer per operand, or per part of a matrix in a layout; bytes and offsets as in every kernel."""
    found: list[Buffer] = []
    for operand in op.operands(case):
        made = (
            _matrix(declaration, case, operand) if isinstance(operand, Matrix) else (_vector(case, operand),)
        )
        align = declaration.constraints.align.get(operand.name, ALIGNED)
        found += [replace(one, align=align) for one in made]
    return tuple(found)


def _matrix(declaration: Declaration, case: Case, matrix: Matrix) -> tuple[Buffer, ...]:
    size = matrix.rows, matrix.cols
    if declaration.layout:
        layout = registry.layout(declaration.layout)
        return packing.buffers(layout, matrix.name, matrix.kind, size, case.layout)
    return (weights_buffer(matrix.name, matrix.kind, *size, case.layout),)


def _vector(case: Case, operand: Vector | Ids) -> Buffer:
    if isinstance(operand, Ids):
        return packed(operand.name, operand.shape, Role.IN, "i4")
    if operand.weights:
        return packed(operand.name, operand.shape, Role.IN)
    return x_buffer(operand.name, operand.shape, case.layout, case.x_dtype)


def with_output(
    declaration: Declaration, op: JudgedOp, case: Case, given: tuple[Buffer, ...]
) -> tuple[Buffer, ...]:
    """The inputs and the output, which may take the place of an input."""
    shape, output = op.out_shape(case), declaration.output
    stored = OUTPUT_DTYPES[output.dtype]
    if not output.inout:
        return (*given, replace(packed("out", shape, Role.OUT, stored), fill=output.fill))
    taken = next(one for one in given if one.name == output.inout)
    if (taken.shape, taken.dtype) != (shape, stored):
        got, want = (f"{dtype} {shape}" for dtype, shape in ((taken.dtype, taken.shape), (stored, shape)))
        text = f"inout = {output.inout!r}: that input is {got}, the output of {op.name} is {want}"
        raise Misdeclared([Mistake(declaration.place, text)])
    return tuple(replace(one, role=Role.INOUT) if one is taken else one for one in given)


def scratch(declared: Scratch, sizes: dict[str, int]) -> Buffer:
    """A buffer of the kernel's own; Misdeclared where it has no elements or more than any memory."""
    shape = tuple(side.value(sizes) for side in declared.shape)
    if min(shape) < 1 or math.prod(shape) > MOST_ELEMENTS:
        text = f"scratch {declared.name!r} of shape {shape}: want each side at least 1, at most 2^40 elements"
        raise Misdeclared([Mistake(declared.place, text)])
    whole = packed(declared.name, shape, Role.SCRATCH, BUFFER_DTYPES[declared.dtype])
    return replace(whole, fill=declared.fill)
