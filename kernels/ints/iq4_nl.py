"""IQ4_NL as integers: w = d * VALUES[q]."""

import numpy as np

from kernels.ints._ints import LOOKED_UP, Ints, pieces
from kernels.kind import half, nibbles
from kernels.kinds.iq4_nl import VALUES


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, 32))
    return q, pieces(half(blocks["d"])[:, None]), None


CUDA = (
    LOOKED_UP
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 4; ++i)
        q[i] = looked_up(bytes_at(block + AT_QS + 4 * i) >> 4 * sub);
    *scale = half_at(block + AT_D);
}
"""
)

INTS = Ints(split, CUDA)
