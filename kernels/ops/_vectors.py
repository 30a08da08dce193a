"""What the ops over float32 vectors share: validation, buffers, and where float32's range ends."""

from __future__ import annotations

import numpy as np

from kernels.model import Case
from kernels.ops._linear import INT32_MAX, refuses_dtypes, refuses_layout

SMALLEST_NORMAL = 2.0**-126  # float32's; below it a result has fewer bits than the rule allows for
OVERFLOW = 2.0**128


def refuses_vectors(case: Case, *sizes: int) -> str:
    """Empty or oversized vectors, and layouts that only weight matrices have."""
    if min(sizes) <= 0:
        return f"empty: got {case.shape}, want each size at least 1; a PASS over nothing proves nothing"
    if max(sizes) > INT32_MAX:
        return f"size {max(sizes)} is past int32's {INT32_MAX}, the type of the kernel's arguments"
    if case.layout.row_padding or case.layout.weights_offset:
        return f"layout {case.layout}: {case.op} has no weight matrix to pad or offset"
    return refuses_layout(case.layout) or refuses_dtypes(case)


def leaves_float32(values: np.ndarray) -> np.ndarray:
    """True where a finite float64 is no normal float32: it would overflow, or lose bits towards zero."""
    size = np.abs(values)
    left: np.ndarray = np.isfinite(values) & (values != 0) & ((size < SMALLEST_NORMAL) | (size >= OVERFLOW))
    return left
