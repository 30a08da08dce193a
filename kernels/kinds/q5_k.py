"""Q5_K, 256 weights in 176 bytes: w = d * s * q - dmin * m, q five bits, s and m six bits for 32 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds._six_bits import CUDA as SIX_BITS
from kernels.kinds._six_bits import group_scales

ELEMENTS = 256
# Nibbles and scales lie as in Q4_K; the fifth bit of weight 32g + i is bit g of qh[i].
BLOCK = np.dtype(
    [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", (4, 32))]
)
BITS = np.arange(8, dtype=np.uint8)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = blocks["qh"][:, None, :] >> BITS  # (n, 8, 32)
    q &= 1
    q <<= 4
    q |= nibbles(blocks["qs"]).reshape(q.shape)
    s, m = group_scales(blocks["scales"])
    d = half(blocks["d"])[:, None] * s
    low = half(blocks["dmin"])[:, None] * m
    w = out.reshape(q.shape)
    np.multiply(d[:, :, None], q, out=w)
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
    const unsigned char *qh = block + AT_QH + ((sub & 1) << 4);
    const int shift = (sub & 2) << 1;
    const int bit = sub >> 1;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)((qs[i] >> shift & 0xF) | (qh[i] >> bit & 1) << 4) - low;
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const float dmin = half_at(block + AT_DMIN);
    const int group = lane >> 3 << 1;
    const unsigned int qs = word_at(block + AT_QS + 4 * lane);
    const unsigned int qh = word_at(block + AT_QH + 4 * (lane & 7)) >> group;
    for (int run = 0; run < 2; ++run) {
        const unsigned int scales = group_scales(block + AT_SCALES, group + run);
        const float ds = d * (float)byte_of(scales, 0);
        const float low = dmin * (float)byte_of(scales, 1);
        const unsigned int q = (qs >> 4 * run & 0x0F0F0F0Fu) | (qh >> run & 0x01010101u) << 4;
        for (int i = 0; i < 4; ++i)
            w[4 * run + i] = ds * (float)byte_of(q, i) - low;
    }
}
"""
)

KIND = Kind(
    "Q5_K", BLOCK, ELEMENTS, Lanes(width=4, runs=2, stride=32), decode, pin, CUDA, lane_align=4, poke=poke
)
