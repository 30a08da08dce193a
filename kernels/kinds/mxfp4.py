"""MXFP4, 32 weights in 17 bytes: w = 2^(e - 128) * VALUES[q], q an E2M1 nibble, e an E8M0 byte."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, nibbles

ELEMENTS = 32
# Weight i < 16 in the low nibble of qs[i], i + 16 in the high one.
BLOCK = np.dtype([("e", "u1"), ("qs", "u1", 16)])
# The sixteen E2M1 codes times two, as integers: code 8, minus zero, becomes +0 as in ggml, where a float
# table and a hardware conversion give -0.0.
VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
# Halved, for the doubled codes: 2^-128 and 2^-127 are subnormal; 255 is 2^127 and no NaN, as in ggml's C
# code.
SCALES = np.ldexp(np.float32(1), np.arange(256) - 128).astype(np.float32)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, ELEMENTS))
    np.multiply(SCALES[blocks["e"]][:, None], q, out=out)


def pin(blocks: np.ndarray) -> None:
    """Makes e one of 123..130, so that 2^(e - 127) is in [2^-4, 2^3]."""
    blocks["e"] &= 7
    blocks["e"] += 123


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    blocks["e"] = bits & 0xFF


CUDA = """
// 2^(e - 128): the exponent field one lower, or for e < 2 a bit of the mantissa.
__device__ __forceinline__ float scale_of(unsigned int e) {
    return bits_to_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = scale_of(block[AT_E]);
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)VALUES[block[AT_QS + i] >> (4 * sub) & 0xF];
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = scale_of(block[AT_E]) * (float)VALUES[block[AT_QS + (lane & 15)] >> (lane >> 4 << 2) & 0xF];
}
"""

KIND = Kind(
    "MXFP4",
    BLOCK,
    ELEMENTS,
    Lanes(width=1, runs=1, stride=32),
    decode,
    pin,
    CUDA,
    tables=(("VALUES", VALUES),),
    poke=poke,
)
