"""Q5_0 as integers: w = d * (q - 16)."""

import numpy as np

from kernels.ints._ints import FIFTHS, MINUS, Ints, pieces
from kernels.kind import half, nibbles


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    q = np.unpackbits(blocks["qh"], axis=1, bitorder="little") << 4
    q |= nibbles(blocks["qs"]).reshape(-1, 32)
    return q.view(np.int8) - np.int8(16), pieces(half(blocks["d"])[:, None]), None


CUDA = (
    MINUS
    + FIFTHS
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    const unsigned int qh = block[AT_QH + 2 * sub] | block[AT_QH + 2 * sub + 1] << 8;
    for (int i = 0; i < 4; ++i) {
        const unsigned int low = bytes_at(block + AT_QS + 4 * i) >> 4 * sub & 0x0F0F0F0Fu;
        q[i] = bytes_minus(low | fifth_bits(qh >> 4 * i), 16);
    }
    *scale = half_at(block + AT_D);
}
"""
)

INTS = Ints(split, CUDA)
