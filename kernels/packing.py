"""Matrices in weight layouts: the buffers they take, packed from GGML blocks and unpacked for the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kernels import registry
from kernels.kind import Kind
from kernels.layout import Packing, Part, WeightLayout
from kernels.model import Buffer, BufferArg, Launch, Layout, Plan, Role

ALIGNED = 16  # bytes: of the base that a layout with an offset starts from, at least


def part_name(matrix: str, part: str) -> str:
    """What the buffer of a part is called, and the argument that points at it: weights.quants."""
    return f"{matrix}.{part}" if part else matrix


def buffers(
    layout: WeightLayout, matrix: str, kind: Kind, shape: tuple[int, int], at: Layout
) -> tuple[Buffer, ...]:
    """A buffer per part of a matrix of `shape` (rows, cols), each with the case's offset and row padding.

    Aligned as its part asks and no further, so that a read past the end is seen at once.
    """
    return tuple(_buffer(layout, part, matrix, kind, shape, at) for part in layout.parts)


def _buffer(
    layout: WeightLayout, part: Part, matrix: str, kind: Kind, shape: tuple[int, int], at: Layout
) -> Buffer:
    sizes, size = part.shape(kind, *shape), np.dtype(part.dtype).itemsize
    strides = [size * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    strides[0] += at.row_padding
    return Buffer(
        part_name(matrix, part.name),
        part.dtype,
        sizes,
        tuple(strides),
        at.weights_offset,
        at.weights_offset + sizes[0] * strides[0],
        Role.IN,
        max(ALIGNED, part.align) if at.weights_offset else part.align,
        Packing(layout.id, part.name, matrix, kind.name, *shape),
    )


def refuses(layout: WeightLayout, kind: Kind, shape: tuple[int, int], at: Layout) -> str:
    """Offsets and pitches at which a part's widest load can't start, and padding where there are no rows."""
    for part in layout.parts:
        sizes = part.shape(kind, *shape)
        what = f"{layout.id}'s {part.name}" if part.name else layout.id
        if at.row_padding and sizes[0] != shape[0]:
            return f"row padding: got {at.row_padding} bytes, want 0: {what} has no rows of its own"
        pitch = part.nbytes(kind, *shape) // sizes[0] + at.row_padding if at.row_padding else 0
        for name, value in (("weights offset", at.weights_offset), ("row pitch", pitch)):
            if value % part.align:
                return (
                    f"{name}: got {value} bytes, want a multiple of {part.align}, which {what} are loaded at"
                )
    return ""


def arguments(layout: WeightLayout, role: str, matrix: str) -> tuple[BufferArg, ...]:
    """A pointer to every part of a matrix, in the layout's order."""
    return tuple(BufferArg(part_name(role, part.name), part_name(matrix, part.name)) for part in layout.parts)


def blank(plan: Plan) -> dict[str, np.ndarray]:
    """Matrix to (rows, packed row bytes) uint8 for every matrix that the plan has in a layout."""
    packings = {buffer.packing.matrix: buffer.packing for buffer in plan.buffers if buffer.packing}
    return {
        name: np.empty((one.rows, registry.kind(one.kind).row_bytes(one.cols)), np.uint8)
        for name, one in packings.items()
    }


def pack(plan: Plan, blocks: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> None:
    """Fills the arrays of a plan's packed buffers from their matrices' GGML blocks."""
    for name, rows in blocks.items():
        held = [(buffer.name, buffer.packing) for buffer in plan.buffers if buffer.packing]
        mine = [(buffer, packing) for buffer, packing in held if packing.matrix == name]
        packing = mine[0][1]
        made = registry.layout(packing.layout).pack(registry.kind(packing.kind), rows)
        for buffer, one in mine:
            arrays[buffer][...] = made[one.part]


def unpacked(plan: Plan, launch: Launch, images: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Role to logical array for one launch; a matrix in a layout comes as GGML blocks, under its own role."""
    arrays = plan.arrays(launch, images)
    for role, name in launch.buffers.items():
        if packing := plan.buffer(name).packing:
            del arrays[role]
            arrays.setdefault(role.partition(".")[0], _blocks(plan, packing, images))
    return arrays


def _blocks(plan: Plan, packing: Packing, images: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = {
        buffer.packing.part: buffer.view(images[buffer.name])
        for buffer in plan.buffers
        if buffer.packing and buffer.packing.matrix == packing.matrix
    }
    kind = registry.kind(packing.kind)
    return registry.layout(packing.layout).unpack(kind, packing.rows, packing.cols, parts)
