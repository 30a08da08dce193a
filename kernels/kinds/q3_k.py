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
// d * (s - 32) of group 8 * upper + 2 * j + odd; `scales` points at the field's byte `odd`.
__device__ __forceinline__ float group_scale(const unsigned char *scales, float d, int upper, int j) {
    const int low = scales[2 * j] >> 4 * upper & 0xF;
    const int top = scales[8 + (2 * j & 2)] >> (4 * upper + (j & 2)) & 3;
    return d * (float)((low | top << 4) - 32);
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const int odd = sub & 1;
    const int j = sub >> 1 & 3;
    const int upper = sub >> 3;
    const float d = group_scale(block + AT_SCALES + odd, half_at(block + AT_D), upper, j);
    const unsigned char *qs = block + AT_QS + 32 * upper + 16 * odd;
    const unsigned char *hmask = block + AT_HMASK + 16 * odd;
    const int bit = sub >> 1;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(((qs[i] >> 2 * j & 3) | (hmask[i] >> bit & 1) << 2) - 4);
}

// Two neighbours: their low bits in a pair's bytes, their third bits in another's.
__device__ __forceinline__ void decode_run(float ds, int pair, int thirds, float *w) {
    const int q = (pair & 0x0303) | (thirds & 0x0101) << 2;
    w[0] = ds * (float)((q & 0xFF) - 4);
    w[1] = ds * (float)((q >> 8) - 4);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int upper = lane >> 4;
    const unsigned char *scales = block + AT_SCALES + (lane >> 3 & 1);
    const unsigned char *qs = block + AT_QS + 2 * lane;
    const unsigned char *hmask = block + AT_HMASK + 2 * (lane & 15);
    const int pair = qs[0] | qs[1] << 8;
    const int thirds = (hmask[0] | hmask[1] << 8) >> 4 * upper;
    decode_run(group_scale(scales, d, upper, 0), pair, thirds, w);
    decode_run(group_scale(scales, d, upper, 1), pair >> 2, thirds >> 1, w + 2);
    decode_run(group_scale(scales, d, upper, 2), pair >> 4, thirds >> 2, w + 4);
    decode_run(group_scale(scales, d, upper, 3), pair >> 6, thirds >> 3, w + 6);
}
"""

KIND = Kind("Q3_K", BLOCK, ELEMENTS, Lanes(width=2, runs=4, stride=32), decode, pin, CUDA, poke=poke)
