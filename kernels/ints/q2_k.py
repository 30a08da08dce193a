"""Q2_K as integers: w = d * s * q - dmin * m."""

import numpy as np

from kernels.ints._ints import Ints
from kernels.kind import half
from kernels.kinds.q2_k import SHIFTS


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = blocks["qs"][:, :, None, :] >> SHIFTS & 3  # (n, 2, 4, 32)
    scale = half(blocks["d"])[:, None] * (blocks["scales"] & 0xF)
    low = half(blocks["dmin"])[:, None] * (blocks["scales"] >> 4)
    return q.reshape(-1, 256).view(np.int8), scale, -low


CUDA = """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale,
                                       float *low) {
    const unsigned char *qs = block + AT_QS + (sub >> 3 << 5) + ((sub & 1) << 4);
    for (int i = 0; i < 4; ++i)
        q[i] = (int)(bytes_at(qs + 4 * i) >> (sub & 6) & 0x03030303u);
    const unsigned int both = block[AT_SCALES + sub];
    *scale = half_at(block + AT_D) * (float)(both & 0xF);
    *low = -(half_at(block + AT_DMIN) * (float)(both >> 4));
}
"""

INTS = Ints(split, CUDA, low=True)
