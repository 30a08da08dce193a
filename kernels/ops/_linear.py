"""What every op over quantized matrices shares: validation in the documented order, and operand buffers."""

from __future__ import annotations

import math

from kernels.kind import Kind
from kernels.model import Buffer, Layout, Role

K_TILE = 32  # columns that mul_mm takes at a time; every linear op asks for whole tiles
INT32_MAX = 2**31 - 1


def refuses_linear(kind: Kind, rows: int, cols: int, layout: Layout) -> str:
    """The first rule that rows x cols of `kind` breaks, saying got and want; empty if none."""
    if rows <= 0 or cols <= 0:
        return f"empty shape {rows}x{cols}; rows and cols must be at least 1"
    if cols % K_TILE:
        return f"cols {cols} is not a multiple of the K-tile {K_TILE}"
    if cols % kind.elements:
        return f"cols {cols} is not a whole number of {kind.name}'s {kind.elements}-weight blocks"
    if layout.x_offset % 4:
        return f"x offset {layout.x_offset} is not a multiple of float32's 4 bytes"
    if rows > INT32_MAX or cols > INT32_MAX:
        return f"shape {rows}x{cols} is past int32's {INT32_MAX}"
    return ""


def weights_buffer(name: str, kind: Kind, rows: int, cols: int, layout: Layout) -> Buffer:
    """(rows, packed row bytes) uint8, rows `row_padding` bytes apart, from `weights_offset` on."""
    row_bytes = kind.row_bytes(cols)
    pitch = row_bytes + layout.row_padding
    nbytes = layout.weights_offset + rows * pitch
    return Buffer(name, "u1", (rows, row_bytes), (pitch, 1), layout.weights_offset, nbytes, Role.IN)


def x_buffer(name: str, shape: tuple[int, ...], layout: Layout) -> Buffer:
    """Activations, float32 row-major, from `x_offset` on with `x_slack` elements behind them."""
    strides = tuple(4 * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    nbytes = layout.x_offset + 4 * (math.prod(shape) + layout.x_slack)
    return Buffer(name, "f4", shape, strides, layout.x_offset, nbytes, Role.IN)
