"""Q4_0 as integers: w = d * (q - 8)."""

import numpy as np

from kernels.ints._ints import MINUS, Ints, pieces
from kernels.kind import half, nibbles


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    q = nibbles(blocks["qs"]).reshape(-1, 32).view(np.int8) - np.int8(8)
    return q, pieces(half(blocks["d"])[:, None]), None


CUDA = (
    MINUS
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 4; ++i)
        q[i] = bytes_minus(bytes_at(block + AT_QS + 4 * i) >> 4 * sub & 0x0F0F0F0Fu, 8);
    *scale = half_at(block + AT_D);
}
"""
)

INTS = Ints(split, CUDA)
