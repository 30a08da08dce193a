"""IQ4_XS, 256 weights in 136 bytes: w = d * (s - 32) * VALUES[q], q a nibble, s six bits for 32 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds.iq4_nl import VALUES

ELEMENTS = 256
# Weight 32g + i, i < 16, in the low nibble of qs[16g + i], weight 32g + 16 + i in the high one.
# s of group g has its low bits in nibble g of scales_l and its top two at 2g of scales_h.
BLOCK = np.dtype([("d", "<f2"), ("scales_h", "<u2"), ("scales_l", "u1", (4, 1)), ("qs", "u1", (8, 16))])
SHIFTS = np.arange(0, 16, 2, dtype=np.uint16)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    s = (blocks["scales_h"][:, None] >> SHIFTS & 3).astype(np.uint8) << 4  # (n, 8)
    s |= nibbles(blocks["scales_l"]).reshape(-1, 8)
    d = half(blocks["d"])[:, None] * (s.view(np.int8) - np.int8(32))
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, 8, 32))
    np.multiply(d[:, :, None], q, out=out.reshape(-1, 8, 32))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has the word at qs + 4l: four low and four high nibbles of group l / 4.
CUDA = """
__device__ __forceinline__ float group_scale(const unsigned char *block, int group) {
    const int low = block[AT_SCALES_L + (group >> 1)] >> ((group & 1) << 2) & 0xF;
    const int high = block[AT_SCALES_H + (group >> 2)] >> ((group & 3) << 1) & 3;
    return half_at(block + AT_D) * (float)((low | high << 4) - 32);
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = group_scale(block, sub >> 1);
    const unsigned char *qs = block + AT_QS + (sub >> 1 << 4);
    const int shift = (sub & 1) << 2;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)VALUES[qs[i] >> shift & 0xF];
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = group_scale(block, lane >> 2);
    const unsigned int q = word_at(block + AT_QS + 4 * lane);
    w[0] = d * (float)VALUES[q & 0xF];
    w[1] = d * (float)VALUES[q >> 8 & 0xF];
    w[2] = d * (float)VALUES[q >> 16 & 0xF];
    w[3] = d * (float)VALUES[q >> 24 & 0xF];
    w[4] = d * (float)VALUES[q >> 4 & 0xF];
    w[5] = d * (float)VALUES[q >> 12 & 0xF];
    w[6] = d * (float)VALUES[q >> 20 & 0xF];
    w[7] = d * (float)VALUES[q >> 28];
}
"""

KIND = Kind(
    "IQ4_XS",
    BLOCK,
    ELEMENTS,
    Lanes(width=4, runs=2, stride=16),
    decode,
    pin,
    CUDA,
    tables=(("VALUES", VALUES),),
    lane_align=4,
    poke=poke,
)
