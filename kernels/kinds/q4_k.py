"""Q4_K, 256 weights in 144 bytes: w = d * s * q - dmin * m, q a nibble, s and m six bits for 32 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds._six_bits import CUDA as SIX_BITS
from kernels.kinds._six_bits import group_scales

ELEMENTS = 256
# Weight 64k + i, i < 32, in the low nibble of qs[32k + i], weight 64k + 32 + i in the high one.
BLOCK = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", (4, 32))])


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    s, m = group_scales(blocks["scales"])
    d = half(blocks["d"])[:, None] * s
    low = half(blocks["dmin"])[:, None] * m
    w = out.reshape(-1, 8, 32)
    np.multiply(d[:, :, None], nibbles(blocks["qs"]).reshape(-1, 8, 32), out=w)
    w -= low[:, :, None]


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])
    pin_half(blocks["dmin"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d", "dmin")


# Lane l has the word at qs + 4l: four low nibbles of group 2 * (l / 8), four high ones of the next group.
CUDA = (
    SIX_BITS
    + """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const unsigned int scales = group_scales(block + AT_SCALES, sub >> 1);
    const float d = half_at(block + AT_D) * (float)byte_of(scales, 0);
    const float low = half_at(block + AT_DMIN) * (float)byte_of(scales, 1);
    const unsigned char *qs = block + AT_QS + (sub >> 2 << 5) + ((sub & 1) << 4);
    const int shift = (sub & 2) << 1;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(qs[i] >> shift & 0xF) - low;
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const float dmin = half_at(block + AT_DMIN);
    const unsigned int q = word_at(block + AT_QS + 4 * lane);
    for (int run = 0; run < 2; ++run) {
        const unsigned int scales = group_scales(block + AT_SCALES, (lane >> 3 << 1) + run);
        const float ds = d * (float)byte_of(scales, 0);
        const float low = dmin * (float)byte_of(scales, 1);
        for (int i = 0; i < 4; ++i)
            w[4 * run + i] = ds * (float)(q >> (8 * i + 4 * run) & 0xF) - low;
    }
}
"""
)

KIND = Kind(
    "Q4_K", BLOCK, ELEMENTS, Lanes(width=4, runs=2, stride=32), decode, pin, CUDA, lane_align=4, poke=poke
)
