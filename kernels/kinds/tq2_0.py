"""TQ2_0, 256 weights in 66 bytes: w = d * (q - 1), q two bits."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 256
# Weight 128h + 32j + i, i < 32, is in the two bits at 2j of qs[32h + i].
BLOCK = np.dtype([("qs", "u1", (2, 32)), ("d", "<f2")])
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = blocks["qs"][:, :, None, :] >> SHIFTS  # (n, 2, 4, 32)
    q &= 3
    signed = q.view(np.int8).reshape(-1, ELEMENTS)
    signed -= np.int8(1)
    np.multiply(half(blocks["d"])[:, None], signed, out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has bytes l and 32 + l of qs, and in them four weights each, 32 apart.
CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    const unsigned char *qs = block + AT_QS + (sub >> 3 << 5) + ((sub & 1) << 4);
    const int shift = sub & 6;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)((qs[i] >> shift & 3) - 1);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int q = block[AT_QS + lane] | block[AT_QS + 32 + lane] << 8;
    for (int run = 0; run < 8; ++run)
        w[run] = d * (float)((q >> 2 * run & 3) - 1);
}
"""

KIND = Kind("TQ2_0", BLOCK, ELEMENTS, Lanes(width=1, runs=8, stride=32), decode, pin, CUDA, poke=poke)
