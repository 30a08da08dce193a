"""Q6_K, 256 weights in 210 bytes: w = d * s * (q - 32), q six bits, s a signed byte for 16 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves

ELEMENTS = 256
# Weight 128h + p, p < 64, has its low bits in the low nibble of ql[64h + p], weight 128h + 64 + p in the high
# one; the top two bits of weight 128h + 32j + i are at 2j of qh[32h + i].
BLOCK = np.dtype([("ql", "u1", (2, 64)), ("qh", "u1", (2, 32)), ("scales", "i1", 16), ("d", "<f2")])
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = blocks["qh"][:, :, None, :] >> SHIFTS  # (n, 2, 4, 32)
    q &= 3
    q <<= 4
    q |= nibbles(blocks["ql"]).reshape(q.shape)
    signed = q.view(np.int8)
    signed -= np.int8(32)
    d = half(blocks["d"])[:, None] * blocks["scales"]  # (n, 16)
    np.multiply(d[:, :, None], signed.reshape(-1, 16, 16), out=out.reshape(-1, 16, 16))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has bytes 4l..4l+3 of ql: four weights in low nibbles, four in high ones. In 210 bytes no word stays
# aligned.
CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D) * (float)(signed char)block[AT_SCALES + sub];
    const unsigned char *ql = block + AT_QL + (sub >> 3 << 6) + ((sub & 3) << 4);
    const unsigned char *qh = block + AT_QH + (sub >> 3 << 5) + ((sub & 1) << 4);
    const int low_shift = sub & 4;
    const int high_shift = sub & 6;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(((ql[i] >> low_shift & 0xF) | (qh[i] >> high_shift & 3) << 4) - 32);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int upper = lane >> 4;
    const unsigned int low = bytes_at(block + AT_QL + 4 * lane);
    const unsigned int high = bytes_at(block + AT_QH + (upper << 5) + 4 * (lane & 7)) >> (lane >> 2 & 2);
    const unsigned int q0 = (low & 0x0F0F0F0Fu) | (high & 0x03030303u) << 4;
    const unsigned int q1 = (low >> 4 & 0x0F0F0F0Fu) | (high & 0x30303030u);
    const unsigned char *scales = block + AT_SCALES + (upper << 3) + (lane >> 2 & 3);
    const float d0 = d * (float)(signed char)scales[0];
    const float d1 = d * (float)(signed char)scales[4];
    for (int i = 0; i < 4; ++i)
        w[i] = d0 * (float)((int)byte_of(q0, i) - 32);
    for (int i = 0; i < 4; ++i)
        w[4 + i] = d1 * (float)((int)byte_of(q1, i) - 32);
}
"""

KIND = Kind("Q6_K", BLOCK, ELEMENTS, Lanes(width=4, runs=2, stride=64), decode, pin, CUDA, poke=poke)
