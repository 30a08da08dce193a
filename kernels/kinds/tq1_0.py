"""TQ1_0, 256 weights in 54 bytes: w = d * (q - 1), q a digit of base 3, five of them in a byte."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 256
# Weight 32n + i, i < 32, is digit n < 5 of qs[i]; weight 160 + 16n + i, i < 16, digit n of qs[32 + i];
# weight 240 + 4n + i, i < 4, digit n < 4 of qh[i].
BLOCK = np.dtype([("qs", "u1", 48), ("qh", "u1", 4), ("d", "<f2")])
# A byte is a fraction of 256 in base 3: multiplied by 3^n, what is left below 256 begins with digit n.
POWERS = np.array([1, 3, 9, 27, 81], np.uint8)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    qs, qh, powers = blocks["qs"][:, None, :], blocks["qh"][:, None, :], POWERS[:, None]
    rest = np.empty((len(blocks), ELEMENTS), np.uint8)
    np.multiply(qs[..., :32], powers, out=rest[:, :160].reshape(-1, 5, 32))
    np.multiply(qs[..., 32:], powers, out=rest[:, 160:240].reshape(-1, 5, 16))
    np.multiply(qh, powers[:4], out=rest[:, 240:].reshape(-1, 4, 4))
    # 3 * rest / 256, rounded down and less 1: from a third of 256 on it is 0, from two thirds on 1.
    q = (rest > 85).view(np.int8)
    q += (rest > 170).view(np.int8)
    q -= np.int8(1)
    np.multiply(half(blocks["d"])[:, None], q, out=out)


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# Lane l has byte l of qs, whose five digits are 32 apart, and three digits of two other bytes.
CUDA = """
// Digit n of a byte, less 1.
__device__ __forceinline__ float digit(int byte, int n) {
    return (float)((((byte * POWERS[n]) & 0xFF) * 3 >> 8) - 1);
}

__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const float d = half_at(block + AT_D);
    if (sub == 15) {
        for (int i = 0; i < 16; ++i)
            w[i] = d * digit(block[AT_QH + (i & 3)], i >> 2);
        return;
    }
    const int n = sub < 10 ? sub >> 1 : sub - 10;
    const unsigned char *qs = block + AT_QS + (sub < 10 ? (sub & 1) << 4 : 32);
    for (int i = 0; i < 16; ++i)
        w[i] = d * digit(qs[i], n);
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const int first = block[AT_QS + lane];
    const int second = block[AT_QS + 32 + (lane & 15)];
    const int upper = lane >> 4;
    for (int n = 0; n < 5; ++n)
        w[n] = d * digit(first, n);
    w[5] = d * digit(second, upper);
    w[6] = d * digit(second, 2 + upper);
    w[7] = d * (upper ? digit(block[AT_QH + (lane & 3)], lane >> 2 & 3) : digit(second, 4));
}
"""

KIND = Kind(
    "TQ1_0",
    BLOCK,
    ELEMENTS,
    Lanes(width=1, runs=8, stride=32),
    decode,
    pin,
    CUDA,
    tables=(("POWERS", POWERS),),
    poke=poke,
)
