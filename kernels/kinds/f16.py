"""F16, 32 weights in 64 bytes: w = q, q a float16."""

import numpy as np

from kernels.kind import Kind, Lanes, half

ELEMENTS = 32  # processed at a time; in a file a weight is a block of its own, and rows have the same bytes
BLOCK = np.dtype([("w", "<f2", ELEMENTS)])


def decode(blocks: np.ndarray) -> np.ndarray:
    return half(blocks["w"])


def pin(blocks: np.ndarray) -> None:
    """Exponents 14 and 15: |w| in [1/2, 2), sign and mantissa stay random."""
    bits = blocks["w"].view(np.uint16)
    bits &= 0x87FF
    bits |= 14 << 10


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    """All weights of a block are the same special value."""
    blocks["w"].view(np.uint16)[:] = bits[:, None]


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    for (int i = 0; i < 16; ++i)
        w[i] = half_at(block + AT_W + 2 * (16 * sub + i));
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = half_bits_to_float((unsigned short)pair_at(block + AT_W + 2 * lane));
}
"""

KIND = Kind(
    "F16", BLOCK, ELEMENTS, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA, lane_align=2, poke=poke
)
