"""Q8_0, 32 weights in 34 bytes: w = d * q, q a signed byte."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 32
BLOCK = np.dtype([("d", "<f2"), ("qs", "i1", 32)])


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    np.multiply(half(blocks["d"])[:, None], blocks["qs"], out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(signed char)block[AT_QS + 16 * sub + i];
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = half_at(block + AT_D) * (float)(signed char)block[AT_QS + lane];
}
"""

KIND = Kind("Q8_0", BLOCK, ELEMENTS, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA, poke=poke)
