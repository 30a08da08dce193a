"""Q1_0, 128 weights in 18 bytes: w = d * (2 * q - 1), q one bit."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 128
# Weight i at bit i % 8 of qs[i / 8].
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", 16)])


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = np.unpackbits(blocks["qs"], axis=1, bitorder="little").view(np.int8)  # (n, 128)
    q <<= 1
    q -= np.int8(1)
    np.multiply(half(blocks["d"])[:, None], q, out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has half of byte l / 2: four neighbours.
CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    const int bits = block[AT_QS + 2 * sub] | block[AT_QS + 2 * sub + 1] << 8;
    for (int i = 0; i < 16; ++i)
        w[i] = bits >> i & 1 ? d : -d;
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int bits = block[AT_QS + (lane >> 1)] >> ((lane & 1) << 2);
    for (int i = 0; i < 4; ++i)
        w[i] = bits >> i & 1 ? d : -d;
}
"""

KIND = Kind("Q1_0", BLOCK, ELEMENTS, Lanes(width=4, runs=1, stride=128), decode, pin, CUDA, poke=poke)
