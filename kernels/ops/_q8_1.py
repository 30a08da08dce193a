"""q8_1, activations of 32 in 36 bytes: x = d * q, q a signed byte; s = d * sum(q) stands beside d."""

from __future__ import annotations

import numpy as np

from kernels.compare import U

ELEMENTS = 32
BLOCK = np.dtype([("d", "<f2"), ("s", "<f2"), ("qs", "i1", ELEMENTS)])
LEVELS = 127  # q of the largest activation
NAN_BITS = 0x7FFF  # the one NaN that a GPU's conversion to float16 gives
SMALLEST_NORMAL = 2.0**-126
FLAW = 4 * U  # what the float32 roundings on the way to d, s or q add up to, relative, with one to spare


def row_bytes(n: int) -> int:
    """Bytes that n activations take, a multiple of 32."""
    return n // ELEMENTS * BLOCK.itemsize


def quantize(x: np.ndarray) -> np.ndarray:
    """(…, n) float32 -> (…, bytes) uint8, by ggml's portable C rule: halves round away from zero.

    Blocks with NaN or Inf have that as d, no quants, and NaN as s.
    """
    v = np.ascontiguousarray(x).reshape(-1, ELEMENTS)
    blocks = np.zeros(len(v), BLOCK)
    with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
        d = np.abs(v).max(axis=1) / np.float32(LEVELS)
        scaled = v * (np.float32(1) / d)[:, None]  # NaN where d is 0
        q = np.where(np.abs(scaled) < LEVELS + 1, away_from_zero(scaled), np.float32(0)).astype(np.int32)
        blocks["qs"] = q
        _put_halves(blocks["d"], d)
        _put_halves(blocks["s"], d * q.sum(axis=1).astype(np.float32))
    return blocks.view(np.uint8).reshape(*x.shape[:-1], -1)


def away_from_zero(numbers: np.ndarray) -> np.ndarray:
    """To the nearest whole number, halves away from zero."""
    size = np.abs(numbers)
    down = np.floor(size)
    rounded: np.ndarray = np.copysign(down + (size - down >= 0.5), numbers)
    return rounded


def _put_halves(field: np.ndarray, numbers: np.ndarray) -> None:
    """Numbers as float16 fields, every NaN with the same bits."""
    field[...] = numbers.astype(np.float16)
    field.view(np.uint16)[np.isnan(numbers)] = NAN_BITS


def values(packed: np.ndarray) -> np.ndarray:
    """(…, bytes) uint8 -> (…, n) float64: the activations that blocks stand for, exactly."""
    blocks = np.ascontiguousarray(packed).view(BLOCK)  # (…, blocks)
    with np.errstate(invalid="ignore"):  # Inf * 0 is a NaN that belongs here
        whole = blocks["d"].astype(np.float64)[..., None] * blocks["qs"]
    return np.asarray(whole.reshape(*packed.shape[:-1], -1))


def oracle(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes that float32 activations must become, by float64, and where that can't tell; both (…, bytes).

    A field is certain where whatever float32 may have rounded on the way leads to the same bits: nearly
    everywhere. What isn't, a half or a subnormal d, is True in the second array.
    """
    v = np.ascontiguousarray(x, np.float64).reshape(-1, ELEMENTS)
    low, high = np.zeros(len(v), BLOCK), np.zeros(len(v), BLOCK)
    with np.errstate(all="ignore"):
        d: np.ndarray = np.abs(v).max(axis=1) / LEVELS
        scaled = np.where(d[:, None] > 0, v / d[:, None], 0.0)
        for blocks, sign in ((low, -1), (high, 1)):
            q = away_from_zero(scaled + sign * FLAW * np.abs(scaled))
            blocks["qs"] = np.where(np.isfinite(d)[:, None], q, 0.0).astype(np.int32)
            _put_halves(blocks["d"], d * (1 + sign * FLAW))
            sums = d * blocks["qs"].sum(axis=1, dtype=np.float64)
            _put_halves(blocks["s"], sums + sign * FLAW * np.abs(sums))
    unsure = np.zeros(len(v), np.dtype([(name, "?", BLOCK[name].itemsize) for name in BLOCK.names or ()]))
    for name in ("d", "s"):
        unsure[name] = (low[name].view(np.uint16) != high[name].view(np.uint16))[:, None]
    subnormal: np.ndarray = np.logical_and(d > 0, d < SMALLEST_NORMAL)
    unsure["qs"] = np.logical_or(low["qs"] != high["qs"], subnormal.reshape(-1, 1))
    unsure["s"] |= unsure["qs"].any(axis=1, keepdims=True)
    want = low.view(np.uint8).astype(np.float64)
    return want.reshape(*x.shape[:-1], -1), unsure.view(bool).reshape(*x.shape[:-1], -1)
