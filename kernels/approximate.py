"""What a device may give in place of the twin's expf and rsqrtf: results some units in the last place off.

CUDA C++ Programming Guide, mathematical functions: both err by 2 ulp at the most over their full range.
"""

from __future__ import annotations

import numpy as np

from kernels.dtypes import bits, canonical

ULPS = 2


def moved(x: np.ndarray, ulps: int) -> np.ndarray:
    """Float32 x >= 0 that many floats further; 0, Inf and NaN stay, none passes 0 or the largest float."""
    x = np.ascontiguousarray(x, np.float32)
    there = np.isfinite(x) & (x > 0)
    largest = np.float32(np.finfo(np.float32).max).view(np.int32)
    whole = np.clip(x.view(np.int32).astype(np.int64) + ulps, 0, largest).astype(np.int32)
    return np.where(there, whole.view(np.float32), x)


def same_bits(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where two float32 arrays have the same bits, NaN canonical and zeros unsigned."""
    equal: np.ndarray = bits(canonical(got)) == bits(canonical(want.astype(np.float32)))
    return equal
