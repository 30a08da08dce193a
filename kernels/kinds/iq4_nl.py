"""IQ4_NL, 32 weights in 18 bytes: w = d * VALUES[q], q a nibble."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves

ELEMENTS = 32
# Weight i < 16 in the low nibble of qs[i], i + 16 in the high one.
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", 16)])
VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)  # dense about zero, as trained weights are


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = VALUES.take(nibbles(blocks["qs"]).reshape(-1, ELEMENTS))
    np.multiply(half(blocks["d"])[:, None], q, out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)VALUES[block[AT_QS + i] >> (4 * sub) & 0xF];
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    w[0] = half_at(block + AT_D) * (float)VALUES[block[AT_QS + (lane & 15)] >> (lane >> 4 << 2) & 0xF];
}
"""

KIND = Kind(
    "IQ4_NL",
    BLOCK,
    ELEMENTS,
    Lanes(width=1, runs=1, stride=32),
    decode,
    pin,
    CUDA,
    tables=(("VALUES", VALUES),),
    poke=poke,
)
