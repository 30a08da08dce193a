"""What the RMS norms share: eps, one order of summing squares for their twins, and their truth."""

from __future__ import annotations

import numpy as np

from kernels import compare
from kernels.approximate import ULPS, moved, same_bits
from kernels.op import Truth, ceil_div
from kernels.ops._linear import halved
from kernels.ops._vectors import OVERFLOW, SMALLEST_NORMAL, leaves_float32

THREADS = 256  # of the one block that a row has
TREE = THREADS.bit_length() - 1  # additions on the way up the tree
STATIC_SHARED_BYTES = 4 * THREADS


def eps32(value: float) -> float:
    """An eps as the kernel gets it, rounded to float32."""
    return float(np.float32(value))


EPS = (("eps", eps32(1e-5)),)
SMALL_EPS = (("eps", eps32(1e-6)),)
NO_EPS = (("eps", 0.0),)

EDGE_LENGTHS = (1, 127, 128, 255, 256, 257, 2880, 3072, 8192, 16384)


def exponents(n: int) -> tuple[int, int]:
    """Values near 1e20 and 1e-20 for the family `specials`; odd and even n start with different ones."""
    return (66, -66) if n % 2 else (-66, 66)


def norm_chain(n: int) -> int:
    return ceil_div(n, THREADS) + TREE


def norm_twin(v: np.ndarray, weights: np.ndarray, eps: float) -> np.ndarray:
    """(…, n) float32: squares summed thread by thread, then up the tree; v * r * w from left to right."""
    out: np.ndarray = v * norm_scale(v, eps)[..., None] * weights
    return out


def norm_scale(v: np.ndarray, eps: float) -> np.ndarray:
    """(…) float32: r of each row."""
    n = v.shape[-1]
    sums = np.zeros((*v.shape[:-1], THREADS), np.float32)
    for first in range(0, n, THREADS):
        turn = v[..., first : first + THREADS]
        sums[..., : turn.shape[-1]] += turn * turn
    mean = halved(sums) / np.float32(n)
    return rsqrt32(mean + np.float32(eps))


def norm_explains(got: np.ndarray, v: np.ndarray, weights: np.ndarray, eps: float) -> bool:
    """Whether one r for each row, within ULPS of the twin's, gives every bit of (…, n) `got`."""
    with np.errstate(all="ignore"):
        r = norm_scale(v, eps)
        rows = [
            same_bits(got, v * moved(r, ulps)[..., None] * weights).all(axis=-1)
            for ulps in range(-ULPS, ULPS + 1)
        ]
    return bool(np.any(rows, axis=0).all())


def rsqrt32(x: np.ndarray) -> np.ndarray:
    """What the host runtime's rsqrtf gives, bit for bit: root and quotient in float64, rounded once."""
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32)


def norm_truth(v: np.ndarray, weights: np.ndarray, eps: float, chain: int | None = None) -> Truth:
    """(…, n) float64 v: purely relative, and the twin's where a square, a sum or a product leaves float32."""
    with np.errstate(all="ignore"):
        total = np.sum(v * v, axis=-1, keepdims=True)
        inside = total / v.shape[-1] + eps
        scaled = v / np.sqrt(inside)
        want = scaled * weights
        row = np.isfinite(total) & ((total >= OVERFLOW) | (inside < SMALLEST_NORMAL))
        return compare.norm_truth(want, row | leaves_float32(scaled) | leaves_float32(want), chain)
