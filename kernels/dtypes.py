"""The element types of buffers: the numbers that their bits are, rounding to them, and their poison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

F32, F16 = np.dtype("<f4"), np.dtype("<f2")
# numpy has no bfloat16. Its 16 bits get a type of their own, so that nobody takes them for numbers.
BF16 = np.dtype([("bf16", "<u2")])

STORED = {"f32": "f4", "f16": "f2", "bf16": "bf16"}  # a case's name of a type: a buffer's
WORDS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def dtype(name: str) -> np.dtype[Any]:
    """The numpy type of a buffer's: its short name, or bf16."""
    return BF16 if name == "bf16" else np.dtype(name)


@dataclass(frozen=True)
class Narrow:
    """A float type of fewer bits than float32."""

    digits: int  # of the significand, the hidden one included
    step: int  # the smallest number is 2^step
    overflow: float  # numbers from here on are rounded to Inf

    def half_ulp(self, size: np.ndarray) -> np.ndarray:
        """What rounding a number of this size can cost, float64; 0 and Inf cost nothing."""
        _, exponent = np.frexp(size)
        half = np.ldexp(0.5, np.maximum(exponent - self.digits, self.step))
        return np.where((size > 0) & np.isfinite(size), half, 0.0)


NARROW = {F16: Narrow(11, -24, 65520.0), BF16: Narrow(8, -133, (2 - 2.0**-8) * 2.0**127)}
QUIET = {F32: 0x7FC00000, F16: 0x7E00, BF16: 0x7FC0}  # the one NaN of a canonical array


def values(array: np.ndarray) -> np.ndarray:
    """The numbers of an array, exactly: float32 for 16-bit floats, any other type as it is."""
    if array.dtype == BF16:
        return (bits(array).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # a NaN that signals
        return array.astype(np.float32) if array.dtype == F16 else array


def rounded(numbers: np.ndarray, to: np.dtype[Any]) -> np.ndarray:
    """Numbers as a buffer's type holds them: to the nearest, halves to even, too large ones to Inf."""
    if numbers.dtype == to:
        return numbers
    if to != BF16:
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(to)
    whole = np.ascontiguousarray(numbers, F32).view(np.uint32).reshape(numbers.shape)
    up = whole + (np.uint32(0x7FFF) + (whole >> 16 & 1))
    kept = np.where(np.isnan(numbers), whole | 0x400000, up) >> 16
    return kept.astype("<u2").view(BF16)


def bits(array: np.ndarray) -> np.ndarray:
    """An array's elements as unsigned integers of their size; what is no type of a buffer's as float32's."""
    kept = array if array.dtype in (*QUIET, np.uint8) else array.astype(F32)
    size = kept.dtype.itemsize
    return np.ascontiguousarray(kept).view(f"<u{size}").reshape(array.shape)


def canonical(array: np.ndarray) -> np.ndarray:
    """A copy in which every NaN has the same bits and every zero is +0; bytes stay what they are."""
    numbers, same = values(array), bits(array).copy()
    kept = array.dtype if array.dtype in (*QUIET, np.uint8) else F32
    if kept in QUIET:
        same[np.isnan(numbers)] = QUIET[kept]
        same[numbers == 0] = 0
    return same.view(kept)


def poison(word: int, of: np.dtype[Any]) -> int | None:
    """The element that a 32-bit poison leaves in an output: a NaN that no kernel makes.

    A type of 16 bits has a NaN of its own, in float16 and in bfloat16. None for bytes: there is no byte that
    a kernel can't write.
    """
    if of in NARROW:
        return word >> 16 & 0x8000 | 0x7FE0 | word >> 8 & 0x1F
    return word if of == F32 else None
