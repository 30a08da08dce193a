"""Q4_0, 32 weights in 18 bytes: w = d * (q - 8), q a nibble."""

import numpy as np

from kernels.kind import Kind, Lanes, half, pin_half

BLOCK = np.dtype(
    [("d", "<f2"), ("qs", "u1", 16)]
)  # weight i < 16 in the low nibble of qs[i], i + 16 in the high one


def decode(blocks: np.ndarray) -> np.ndarray:
    qs = blocks["qs"]  # (n, 16) uint8
    q = np.concatenate([qs & 0xF, qs >> 4], axis=1).astype(np.int8) - np.int8(8)  # (n, 32)
    return half(blocks["d"])[:, None] * q.astype(np.float32)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)((int)(block[AT_QS + i] >> (4 * sub) & 0xF) - 8);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = half_at(block + AT_D) * (float)((int)(block[AT_QS + lane % 16] >> (lane / 16 * 4) & 0xF) - 8);
}
"""

KIND = Kind("Q4_0", BLOCK, 32, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA)
