"""Q2_0, 64 weights in 18 bytes: w = d * (q - 1), q two bits."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 64
# Weight i in the two bits at 2 * (i % 4) of qs[i / 4].
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", 16)])
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = blocks["qs"][:, :, None] >> SHIFTS  # (n, 16, 4)
    q &= 3
    signed = q.view(np.int8).reshape(-1, ELEMENTS)
    signed -= np.int8(1)
    np.multiply(half(blocks["d"])[:, None], signed, out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has half of byte l / 2: two neighbours.
CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    const unsigned int q = bytes_at(block + AT_QS + 4 * sub);
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)((int)(q >> 2 * i & 3) - 1);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int q = block[AT_QS + (lane >> 1)] >> ((lane & 1) << 2);
    w[0] = d * (float)((q & 3) - 1);
    w[1] = d * (float)((q >> 2 & 3) - 1);
}
"""

KIND = Kind("Q2_0", BLOCK, ELEMENTS, Lanes(width=2, runs=1, stride=64), decode, pin, CUDA, poke=poke)
