"""Q5_K as integers: w = d * s * q - dmin * m."""

import numpy as np

from kernels.ints._ints import Ints, pieces
from kernels.kind import half, nibbles
from kernels.kinds._six_bits import group_scales
from kernels.kinds.q5_k import BITS


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = (blocks["qh"][:, None, :] >> BITS & 1) << 4  # (n, 8, 32)
    q |= nibbles(blocks["qs"]).reshape(q.shape)
    s, m = group_scales(blocks["scales"])
    scale, low = half(blocks["d"])[:, None] * s, half(blocks["dmin"])[:, None] * m
    return q.reshape(-1, 256).view(np.int8), pieces(scale), pieces(-low)


CUDA = """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale,
                                       float *low) {
    const unsigned char *qs = block + AT_QS + (sub >> 2 << 5) + ((sub & 1) << 4);
    const unsigned char *qh = block + AT_QH + ((sub & 1) << 4);
    for (int i = 0; i < 4; ++i) {
        const unsigned int fifths = word_at(qh + 4 * i) >> (sub >> 1) & 0x01010101u;
        q[i] = (int)((word_at(qs + 4 * i) >> ((sub & 2) << 1) & 0x0F0F0F0Fu) | fifths << 4);
    }
    const unsigned int both = group_scales(block + AT_SCALES, sub >> 1);
    *scale = half_at(block + AT_D) * (float)byte_of(both, 0);
    *low = -(half_at(block + AT_DMIN) * (float)byte_of(both, 1));
}
"""

INTS = Ints(split, CUDA, low=True)
