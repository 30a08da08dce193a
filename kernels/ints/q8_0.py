"""Q8_0 as integers: w = d * q."""

import numpy as np

from kernels.ints._ints import Ints, pieces
from kernels.kind import half


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    return blocks["qs"], pieces(half(blocks["d"])[:, None]), None


CUDA = """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 4; ++i)
        q[i] = (int)bytes_at(block + AT_QS + 16 * sub + 4 * i);
    *scale = half_at(block + AT_D);
}
"""

INTS = Ints(split, CUDA)
