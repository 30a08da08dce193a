"""MXFP4 as integers: w = 2^(e - 128) * VALUES[q]."""

import numpy as np

from kernels.ints._ints import LOOKED_UP, Ints, pieces
from kernels.kind import nibbles
from kernels.kinds.mxfp4 import SCALES, VALUES


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, 32))
    return q, pieces(SCALES[blocks["e"]][:, None]), None


CUDA = (
    LOOKED_UP
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 4; ++i)
        q[i] = looked_up(bytes_at(block + AT_QS + 4 * i) >> 4 * sub);
    *scale = scale_of(block[AT_E]);
}
"""
)

INTS = Ints(split, CUDA)
