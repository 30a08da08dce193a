"""The oracle's decoders for the kinds that the `gguf` package can't decode: plain, one weight at a time.

They share nothing with the kinds' own decode: sizes and places are written out from the formats' description,
and the arithmetic is float64. ggml's own output (tests/data/golden) holds both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Decode = Callable[[np.ndarray], np.ndarray]  # (rows, packed row bytes) uint8 -> (rows, cols) float64


def q1_0(rows: np.ndarray) -> np.ndarray:
    """Blocks of 18 bytes: a float16 d, then 128 bits, the lowest of a byte first; 1 is d and 0 is -d."""
    blocks = rows.reshape(-1, 18)
    d = _float16(blocks[:, 0], blocks[:, 1])
    out = np.empty((len(blocks), 128))
    for i in range(128):
        bit = blocks[:, 2 + i // 8] // 2 ** (i % 8) % 2
        out[:, i] = np.where(bit == 1, d, -d)
    return out.reshape(len(rows), -1)


def q2_0(rows: np.ndarray) -> np.ndarray:
    """Blocks of 18 bytes: a float16 d, then 64 codes q of two bits, the lowest first; w is (q - 1) d."""
    blocks = rows.reshape(-1, 18)
    d = _float16(blocks[:, 0], blocks[:, 1])
    out = np.empty((len(blocks), 64))
    for i in range(64):
        code = blocks[:, 2 + i // 4] // 4 ** (i % 4) % 4
        out[:, i] = (code.astype(float) - 1) * d
    return out.reshape(len(rows), -1)


def _float16(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The values of float16 bits given as bytes, (n,) each: sign, five bits of exponent, ten of fraction."""
    exponent = (high // 4 % 32).astype(int)
    fraction = (high % 4) * 256.0 + low
    normal = np.ldexp(1024 + fraction, exponent - 25)
    size = np.where(exponent == 0, np.ldexp(fraction, -24), normal)
    size = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), size)
    return np.where(high >= 128, -size, size)


CODECS: dict[str, Decode] = {"Q1_0": q1_0, "Q2_0": q2_0}
