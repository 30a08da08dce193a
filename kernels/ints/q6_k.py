"""Q6_K as integers: w = d * s * (q - 32)."""

import numpy as np

from kernels.ints._ints import MINUS, Ints
from kernels.kind import half, nibbles
from kernels.kinds.q6_k import SHIFTS


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    q = (blocks["qh"][:, :, None, :] >> SHIFTS & 3) << 4  # (n, 2, 4, 32)
    q |= nibbles(blocks["ql"]).reshape(q.shape)
    return q.reshape(-1, 256).view(np.int8) - np.int8(32), half(blocks["d"])[:, None] * blocks["scales"], None


CUDA = (
    MINUS
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    const unsigned char *ql = block + AT_QL + (sub >> 3 << 6) + ((sub & 3) << 4);
    const unsigned char *qh = block + AT_QH + (sub >> 3 << 5) + ((sub & 1) << 4);
    for (int i = 0; i < 4; ++i) {
        const unsigned int high = bytes_at(qh + 4 * i) >> (sub & 6) & 0x03030303u;
        q[i] = bytes_minus((bytes_at(ql + 4 * i) >> (sub & 4) & 0x0F0F0F0Fu) | high << 4, 32);
    }
    *scale = half_at(block + AT_D) * (float)(signed char)block[AT_SCALES + sub];
}
"""
)

INTS = Ints(split, CUDA)
