"""Q3_K, 256 weights in 110 bytes: w = d * (s - 32) * (q - 4), q three bits, s six bits for 16 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 256
# Weight 128h + 32j + i has its low bits at 2j of qs[32h + i] and its third at 4h + j of hmask[i]. s of group
# g has its low bits in scales[g % 8], in the high nibble for g >= 8, and its top two at 2 * (g / 4) of
# scales[8 + g % 4].
BLOCK = np.dtype([("hmask", "u1", 32), ("qs", "u1", (2, 32)), ("scales", "u1", 12), ("d", "<f2")])
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
BITS = np.arange(8, dtype=np.uint8)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    third = blocks["hmask"][:, None, :] >> BITS  # (n, 8, 32)
    third &= 1
    third <<= 2
    q = blocks["qs"][:, :, None, :] >> SHIFTS  # (n, 2, 4, 32)
    q &= 3
    q |= third.reshape(q.shape)
    signed = q.view(np.int8)
    signed -= np.int8(4)
    d = half(blocks["d"])[:, None] * group_scales(blocks["scales"])
    np.multiply(d[:, :, None], signed.reshape(-1, 16, 16), out=out.reshape(-1, 16, 16))


def group_scales(packed: np.ndarray) -> np.ndarray:
    """(n, 12) uint8 -> (n, 16) int8: s - 32 of every group."""
    s = packed[:, None, 8:] >> SHIFTS & 3  # (n, 4, 4), top bits in group order
    s = s.reshape(-1, 16) << 4
    s[:, :8] |= packed[:, :8] & 0xF
    s[:, 8:] |= packed[:, :8] >> 4
    return s.view(np.int8) - np.int8(32)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has bytes 2l and 2l + 1 of qs, and in them four weights each, 32 apart.
CUDA = """
__device__ __forceinline__ float group_scale(const unsigned char *scales, float d, int group) {
    const int nibble = scales[group & 7] >> (group >> 3 << 2) & 0xF;
    const int top = scales[8 + (group & 3)] >> (group >> 2 << 1) & 3;
    return d * (float)((nibble | top << 4) - 32);
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = group_scale(block + AT_SCALES, half_at(block + AT_D), sub);
    const unsigned char *qs = block + AT_QS + (sub >> 3 << 5) + ((sub & 1) << 4);
    const unsigned char *hmask = block + AT_HMASK + ((sub & 1) << 4);
    const int shift = sub & 6;
    const int bit = sub >> 1;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(((qs[i] >> shift & 3) | (hmask[i] >> bit & 1) << 2) - 4);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int upper = lane >> 4;
    const int first = upper << 3 | (lane >> 3 & 1);
    const int q0 = block[AT_QS + 2 * lane];
    const int q1 = block[AT_QS + 2 * lane + 1];
    const int third0 = block[AT_HMASK + 2 * (lane & 15)] >> 4 * upper;
    const int third1 = block[AT_HMASK + 2 * (lane & 15) + 1] >> 4 * upper;
    for (int j = 0; j < 4; ++j) {
        const float ds = group_scale(block + AT_SCALES, d, first + 2 * j);
        w[2 * j] = ds * (float)(((q0 >> 2 * j & 3) | (third0 >> j & 1) << 2) - 4);
        w[2 * j + 1] = ds * (float)(((q1 >> 2 * j & 3) | (third1 >> j & 1) << 2) - 4);
    }
}
"""

KIND = Kind("Q3_K", BLOCK, ELEMENTS, Lanes(width=2, runs=4, stride=32), decode, pin, CUDA, poke=poke)
