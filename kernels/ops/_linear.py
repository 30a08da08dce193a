"""What the ops over quantized matrices share: validation in the documented order, buffers, sums in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels import dtypes, registry
from kernels.kind import Kind
from kernels.model import Buffer, Case, Layout, Role, ScalarArg
from kernels.op import TENSOR_SCALE, Step
from kernels.tensor_scale import name_of

K_TILE = 32  # columns that mul_mm takes at a time; every linear op asks for whole tiles
ALIGNED = 16  # bytes: what the widest load of any kernel needs
INT32_MAX = 2**31 - 1
# Of activations of 16 bits: what differs from float32's is their range and their conversion.
NARROW = ("ordinary", "tiny", "onehot", "specials")
STRUCTURED = ("ordinary", "tiny", "onehot", "sparse", "constant", "cancelling", "specials")
WEIGHTS_AT_ONCE = 2**20  # decoded weights that a twin holds: 4 MiB of float32, so that the sums stay in cache
FEW_LANES = 64  # lanes below which one call of accumulate beats a Python loop over the terms


Scale = tuple[ScalarArg, ...]  # the tensor's scale as a kernel's last argument; empty for kinds without one


@dataclass(frozen=True)
class Sizes:
    """What arrays given by a user hold."""

    row_bytes: int  # of one weight row, without padding
    weights: int  # bytes of the weight buffer
    x: int  # float32 elements of the activation buffer


def refuses_linear(
    kind: Kind, rows: int, cols: int, layout: Layout, batch: int = 1, x_dtype: str = "f32"
) -> str:
    """The first rule that rows x cols of `kind` breaks, saying got and want; empty if none."""
    return refuses_shape(kind, rows, cols, batch) or refuses_layout(layout, x_dtype)


def refuses_shape(kind: Kind, rows: int, cols: int, batch: int = 1) -> str:
    """Empty shapes, columns that are no whole tiles or blocks, and sizes past int32, in this order."""
    if rows <= 0 or cols <= 0 or batch <= 0:
        return f"empty: got rows {rows}, cols {cols}, batch {batch}; want each at least 1"
    padded = _up(
        cols, math.lcm(K_TILE, kind.elements)
    )  # whole tiles and whole blocks, so that one step is enough
    if cols % K_TILE:
        return f"cols {cols} is not a multiple of the K-tile {K_TILE}; pad to {padded}"
    if cols % kind.elements:
        blocks = f"{kind.name}'s {kind.elements}-weight blocks"
        return f"cols {cols} is not a whole number of {blocks}; pad to {padded}"
    largest = max(rows, cols, batch)
    if largest > INT32_MAX:
        return f"size {largest} is past int32's {INT32_MAX}, the type of the kernel's arguments"
    return ""


def refuses_layout(layout: Layout, x_dtype: str = "f32") -> str:
    """Activations that don't lie on the bytes of their type, and sizes below nothing."""
    if min(layout.row_padding, layout.weights_offset, layout.x_offset, layout.x_slack) < 0:
        return f"layout {layout} has a negative size; want 0 or more"
    size = dtypes.dtype(dtypes.STORED[x_dtype]).itemsize
    if layout.x_offset % size:
        return f"x offset {layout.x_offset} is not a multiple of {dtypes.WORDS[x_dtype]}'s {size} bytes"
    return ""


def refuses_buffers(kind: Kind, rows: int, cols: int, batch: int, sizes: Sizes) -> str:
    """Whether given arrays hold what the shape needs, after the shape itself; larger buffers are fine."""
    if reason := refuses_shape(kind, rows, cols, batch):
        return reason
    row_bytes = kind.row_bytes(cols)
    if sizes.row_bytes != row_bytes:
        return f"row_bytes: got {sizes.row_bytes}, want {row_bytes} for {cols} columns of {kind.name}"
    if sizes.weights < rows * row_bytes:
        return f"weight buffer too small: got {sizes.weights} bytes, want {rows * row_bytes} for {rows} rows"
    if sizes.x < batch * cols:
        return f"activation buffer too small: got {sizes.x} float32, want {batch * cols}"
    return ""


def refuses_lanes(kind: Kind, cols: int, layout: Layout) -> str:
    """Rows that don't start where the widest load of the kind's lanes may read."""
    pitch = kind.row_bytes(cols) + layout.row_padding
    for name, value in (("weights offset", layout.weights_offset), ("row pitch", pitch)):
        if value % kind.lane_align:
            wanted = f"a multiple of {kind.lane_align}, which {kind.name}'s lanes load at once"
            return f"{name}: got {value} bytes, want {wanted}"
    return ""


def _up(amount: int, size: int) -> int:
    return -(-amount // size) * size


def weights_buffer(name: str, kind: Kind, rows: int, cols: int, layout: Layout) -> Buffer:
    """(rows, packed row bytes) uint8, rows `row_padding` bytes apart, from `weights_offset` on.

    Aligned as the kind's widest load needs and no further, so that a read past the end is seen at once; to
    16 bytes where the layout is about the offset from an aligned base.
    """
    row_bytes = kind.row_bytes(cols)
    pitch = row_bytes + layout.row_padding
    nbytes = layout.weights_offset + rows * pitch
    offset, align = layout.weights_offset, ALIGNED if layout.weights_offset else kind.lane_align
    return Buffer(name, "u1", (rows, row_bytes), (pitch, 1), offset, nbytes, Role.IN, align)


def x_buffer(name: str, shape: tuple[int, ...], layout: Layout, x_dtype: str = "f32") -> Buffer:
    """Activations, row-major, from `x_offset` on with `x_slack` elements behind them."""
    stored = dtypes.STORED[x_dtype]
    size = dtypes.dtype(stored).itemsize
    strides = tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    nbytes = layout.x_offset + size * (math.prod(shape) + layout.x_slack)
    align = ALIGNED if layout.x_offset else size
    return Buffer(name, stored, shape, strides, layout.x_offset, nbytes, Role.IN, align)


def scale_arg(case: Case, matrix: str) -> Scale:
    """What a launch over that matrix of the case has behind its other arguments."""
    value = dict(case.scalars).get(name_of(matrix))
    return () if value is None else (ScalarArg(TENSOR_SCALE, "f4", value),)


def scaled(step: Step, sums: np.ndarray) -> np.ndarray:
    """Finished float32 sums times their tensor's scale, rounded once; as they are for kinds without one."""
    if step.tensor_scale is None:
        return sums
    product: np.ndarray = np.float32(step.tensor_scale) * sums
    return product


def in_order(terms: np.ndarray, start: np.ndarray) -> np.ndarray:
    """start + terms[0] + terms[1] + … in float32, one after the other: (terms, …) onto (…)."""
    if start.size < FEW_LANES:  # accumulate is sequential by definition, unlike sum
        total: np.ndarray = np.add.accumulate(np.concatenate([start[None], terms]), axis=0)[-1]
        return total
    total = start.copy()
    for term in np.ascontiguousarray(terms):
        total += term
    return total


def halved(sums: np.ndarray) -> np.ndarray:
    """The tree over the last axis, the upper half onto the lower until one is left: (…, 2^n) to (…,)."""
    while (half := sums.shape[-1] // 2) > 0:
        sums = sums[..., :half] + sums[..., half:]
    total: np.ndarray = sums[..., 0]
    return total


def by_rows(rows: np.ndarray, cols: int, twin: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`twin` over as many weight rows at a time as WEIGHTS_AT_ONCE allows, joined on the last axis."""
    step = max(1, WEIGHTS_AT_ONCE // cols)
    return np.concatenate([twin(rows[first : first + step]) for first in range(0, len(rows), step)], axis=-1)


def refuses_dtypes(case: Case) -> str:
    """Activations, output or weight layout other than what the kernel reads and writes."""
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    for name, got, want in (
        ("x dtype", case.x_dtype, kernel.x_dtype),
        ("out dtype", case.out_dtype, kernel.out_dtype),
        ("weight layout", case.packing or "GGML's", kernel.packing or "GGML's"),
    ):
        if got != want:
            return f"{name}: got {got}, want {want}"
    return ""
