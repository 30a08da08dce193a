"""What a kind's integer form is: w = scale * q + low, q a signed byte, scale and low for 16 neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PIECE = 16  # weights that share scale and low; kinds with groups of 32 give them twice

# (n,) block -> q (n, elements) int8, scale and low (n, elements / PIECE) float32; low is None where it is 0.
Split = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray | None]]


@dataclass(frozen=True)
class Ints:
    """The integer form of one kind; its file's name is the kind's."""

    split: Split
    # ints16(block, sub, q, scale[, low]): four words of packed bytes, lowest weight in the low byte, and
    # the floats of piece `sub`. It stands behind the kind's own text and may use it.
    cuda: str
    low: bool = False  # whether there is a low, and ints16 writes it


def pieces(groups: np.ndarray) -> np.ndarray:
    """(n, groups of 32) -> (n, pieces): each twice."""
    return np.repeat(groups, 2, axis=1)


MINUS = """
// Every byte of a word less k; bytes are below 128 before and signed afterwards.
__device__ __forceinline__ int bytes_minus(unsigned int word, unsigned int k) {
    return (int)(((word | 0x80808080u) - k * 0x01010101u) ^ 0x80808080u);
}
"""

FIFTHS = """
// Bits 0..3 as the fifth bits of a word's four bytes.
__device__ __forceinline__ unsigned int fifth_bits(unsigned int bits) {
    return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
}
"""

LOOKED_UP = """
// The table's bytes for the low nibbles of a word's bytes.
__device__ __forceinline__ int looked_up(unsigned int nibbles) {
    unsigned int word = 0;
    for (int i = 0; i < 4; ++i)
        word |= (VALUES[nibbles >> 8 * i & 0xF] & 0xFFu) << 8 * i;
    return (int)word;
}
"""
