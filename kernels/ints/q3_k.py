"""Q3_K as integers: w = d * (s - 32) * (q - 4)."""

import numpy as np

from kernels.ints._ints import MINUS, Ints
from kernels.kind import half
from kernels.kinds.q3_k import BITS, SHIFTS, group_scales


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    third = blocks["hmask"][:, None, :] >> BITS & 1  # (n, 8, 32)
    low = blocks["qs"][:, :, None, :] >> SHIFTS & 3  # (n, 2, 4, 32)
    q = (low | (third << 2).reshape(low.shape)).reshape(-1, 256)
    return q.view(np.int8) - np.int8(4), half(blocks["d"])[:, None] * group_scales(blocks["scales"]), None


CUDA = (
    MINUS
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    const int odd = sub & 1;
    const int upper = sub >> 3;
    const unsigned char *qs = block + AT_QS + 32 * upper + 16 * odd;
    const unsigned char *hmask = block + AT_HMASK + 16 * odd;
    for (int i = 0; i < 4; ++i) {
        const unsigned int thirds = bytes_at(hmask + 4 * i) >> (sub >> 1) & 0x01010101u;
        q[i] = bytes_minus((bytes_at(qs + 4 * i) >> (sub & 6) & 0x03030303u) | thirds << 2, 4);
    }
    *scale = group_scale(block + AT_SCALES + odd, half_at(block + AT_D), upper, sub >> 1 & 3);
}
"""
)

INTS = Ints(split, CUDA)
