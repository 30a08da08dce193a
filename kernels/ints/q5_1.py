"""Q5_1 as integers: w = d * q + m."""

import numpy as np

from kernels.ints._ints import FIFTHS, Ints, pieces
from kernels.kind import half, nibbles


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = np.unpackbits(blocks["qh"], axis=1, bitorder="little") << 4
    q |= nibbles(blocks["qs"]).reshape(-1, 32)
    return q.view(np.int8), pieces(half(blocks["d"])[:, None]), pieces(half(blocks["m"])[:, None])


CUDA = (
    FIFTHS
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale,
                                       float *low) {
    const unsigned int qh = block[AT_QH + 2 * sub] | block[AT_QH + 2 * sub + 1] << 8;
    for (int i = 0; i < 4; ++i)
        q[i] = (int)((bytes_at(block + AT_QS + 4 * i) >> 4 * sub & 0x0F0F0F0Fu) | fifth_bits(qh >> 4 * i));
    *scale = half_at(block + AT_D);
    *low = half_at(block + AT_M);
}
"""
)

INTS = Ints(split, CUDA, low=True)
