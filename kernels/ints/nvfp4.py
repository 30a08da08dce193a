"""NVFP4 as integers: w = d * VALUES[q]; the tensor's scale is applied to the finished sum."""

import numpy as np

from kernels.ints._ints import LOOKED_UP, Ints
from kernels.kind import nibbles
from kernels.kinds.mxfp4 import VALUES
from kernels.kinds.nvfp4 import SCALES


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    return VALUES.take(nibbles(blocks["qs"]).reshape(-1, 64)), SCALES.take(blocks["d"]), None


CUDA = (
    LOOKED_UP
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 2; ++i) {
        const unsigned int word = bytes_at(block + AT_QS + 8 * sub + 4 * i);
        q[i] = looked_up(word);
        q[2 + i] = looked_up(word >> 4);
    }
    *scale = scale_of(block[AT_D + sub]);
}
"""
)

INTS = Ints(split, CUDA)
