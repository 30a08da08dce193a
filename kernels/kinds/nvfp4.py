"""NVFP4, 64 weights in 36 bytes: w = d * VALUES[q], q an E2M1 nibble, d half an E4M3 byte for 16 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, nibbles
from kernels.kinds.mxfp4 import VALUES

ELEMENTS = 64
# Weight 16g + i, i < 8, in the low nibble of qs[g][i], weight 16g + 8 + i in the high one.
BLOCK = np.dtype([("d", "u1", 4), ("qs", "u1", (4, 8))])
NOT_A_NUMBER = 0x7F  # the one byte that E4M3 gives no number; ggml's C code makes 0 of it


def scales() -> np.ndarray:
    """(256,) float32: half of what every E4M3 byte stands for, for the doubled codes; bit 7 doesn't count."""
    byte = np.arange(256)
    exponent, mantissa = byte >> 3 & 15, byte & 7
    significand = np.where(exponent == 0, mantissa, 8 + mantissa)
    halved = np.ldexp(significand.astype(np.float32), np.maximum(exponent, 1) - 11)
    return np.where(byte == NOT_A_NUMBER, np.float32(0), halved)


SCALES = scales()


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, 4, 16))
    np.multiply(SCALES.take(blocks["d"])[:, :, None], q, out=out.reshape(-1, 4, 16))


def pin(blocks: np.ndarray) -> None:
    """Clears bit 7, which counts in ggml's CUDA code alone, and makes 448 of what is no number."""
    blocks["d"] &= 0x7F
    blocks["d"] -= blocks["d"] == NOT_A_NUMBER


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    blocks["d"] = (bits & 0xFF)[:, None]


# The smallest, no number, the largest, zero, the largest subnormal, the smallest normal; then bit 7 set.
SPECIAL_SCALES = (0x01, 0x7F, 0x7E, 0x00, 0x07, 0x08, 0xFF, 0x80, 0xFE, 0x81)

# Lane l has byte l of qs: weight i of group l / 8 and the one eight further.
CUDA = """
// Half of what an E4M3 byte stands for: its bits are those of a float16 of 2^-8 times the value.
__device__ __forceinline__ float scale_of(unsigned int e4m3) {
    return e4m3 == 0x7F ? 0.0f : 128.0f * half_bits_to_float((unsigned short)((e4m3 & 0x7F) << 7));
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = scale_of(block[AT_D + sub]);
    const unsigned char *qs = block + AT_QS + 8 * sub;
    for (int i = 0; i < 8; ++i) {
        w[i] = d * (float)VALUES[qs[i] & 0xF];
        w[8 + i] = d * (float)VALUES[qs[i] >> 4];
    }
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = scale_of(block[AT_D + (lane >> 3)]);
    const unsigned int q = block[AT_QS + lane];
    w[0] = d * (float)VALUES[q & 0xF];
    w[1] = d * (float)VALUES[q >> 4];
}
"""

KIND = Kind(
    "NVFP4",
    BLOCK,
    ELEMENTS,
    Lanes(width=1, runs=2, stride=8),
    decode,
    pin,
    CUDA,
    tables=(("VALUES", VALUES),),
    poke=poke,
    tensor_scale=True,
    special_scales=SPECIAL_SCALES,
)
