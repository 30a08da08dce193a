"""F32, 32 weights in 128 bytes: w = q, q a float32."""

import numpy as np

from kernels.kind import Kind, Lanes
from kernels.kinds._floats import special_floats

ELEMENTS = 32  # processed at a time; in a file a weight is a block of its own, and rows have the same bytes
BLOCK = np.dtype([("w", "<f4", ELEMENTS)])


def decode(blocks: np.ndarray) -> np.ndarray:
    """The blocks' own memory, read-only: there is nothing to decode."""
    w = np.asarray(blocks["w"].astype(np.float32, copy=False)).view()
    w.flags.writeable = False
    return w


def pin(blocks: np.ndarray) -> None:
    """Exponents 126 and 127: |w| in [1/2, 2), sign and mantissa stay random."""
    bits = blocks["w"].view(np.uint32)
    bits &= 0x80FFFFFF
    bits |= 126 << 23


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    """All weights of a block are the same special value."""
    blocks["w"].view(np.uint32)[:] = special_floats(bits)[:, None]


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    for (int i = 0; i < 16; ++i)
        w[i] = bits_to_float(bytes_at(block + AT_W + 4 * (16 * sub + i)));
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = bits_to_float(word_at(block + AT_W + 4 * lane));
}
"""

KIND = Kind(
    "F32", BLOCK, ELEMENTS, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA, lane_align=4, poke=poke
)
