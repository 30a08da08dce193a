"""BF16, 32 weights in 64 bytes: w = q, q the upper half of a float32."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked
from kernels.kinds._floats import FRACTION, special_floats

ELEMENTS = 32  # processed at a time; in a file a weight is a block of its own, and rows have the same bytes
BLOCK = np.dtype([("w", "<u2", ELEMENTS)])


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    np.left_shift(blocks["w"], np.uint32(16), out=out.view(np.uint32))


def pin(blocks: np.ndarray) -> None:
    """Exponents 126 and 127: |w| in [1/2, 2), sign and mantissa stay random."""
    bits = blocks["w"]
    bits &= 0x80FF
    bits |= 126 << 7


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    """All weights of a block are the same special value; a mantissa that isn't 0 stays so."""
    wide = special_floats(bits)
    lost = (wide & FRACTION > 0) & (wide & FRACTION >> 16 << 16 == 0)
    blocks["w"][:] = (wide >> 16 | lost)[:, None]


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const unsigned char *at = block + AT_W + 32 * sub;
    for (int i = 0; i < 16; ++i)
        w[i] = bits_to_float((unsigned int)at[2 * i] << 16 | (unsigned int)at[2 * i + 1] << 24);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = bits_to_float(pair_at(block + AT_W + 2 * lane) << 16);
}
"""

KIND = Kind(
    "BF16", BLOCK, ELEMENTS, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA, lane_align=2, poke=poke
)
