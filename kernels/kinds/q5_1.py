"""Q5_1, 32 weights in 24 bytes: w = d * q + m, q a nibble and a fifth bit."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves

ELEMENTS = 32
# Weight i < 16 in the low nibble of qs[i], i + 16 in the high one; the fifth bit of weight i is bit i of qh.
BLOCK = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = np.unpackbits(blocks["qh"], axis=1, bitorder="little")  # (n, 32), bit i in place i
    q <<= 4
    q |= nibbles(blocks["qs"]).reshape(-1, ELEMENTS)
    np.multiply(half(blocks["d"])[:, None], q, out=out)
    out += half(blocks["m"])[:, None]


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])
    pin_half(blocks["m"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d", "m")


CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    const float m = half_at(block + AT_M);
    const unsigned int qh = block[AT_QH + 2 * sub] | block[AT_QH + 2 * sub + 1] << 8;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)((block[AT_QS + i] >> (4 * sub) & 0xF) | (qh >> i & 1) << 4) + m;
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const int nibble = block[AT_QS + (lane & 15)] >> (lane >> 4 << 2) & 0xF;
    const int fifth = block[AT_QH + (lane >> 3)] >> (lane & 7) & 1;
    w[0] = half_at(block + AT_D) * (float)(nibble | fifth << 4) + half_at(block + AT_M);
}
"""

KIND = Kind("Q5_1", BLOCK, ELEMENTS, Lanes(width=1, runs=1, stride=32), decode, pin, CUDA, poke=poke)
