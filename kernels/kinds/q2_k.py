"""Q2_K, 256 weights in 84 bytes: w = d * s * q - dmin * m, q two bits, s and m a nibble for 16 weights."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves

ELEMENTS = 256
# scales[g] has s of weights 16g..16g+15 in its low nibble, m in the high one.
# Weight 128h + 32j + i, i < 32, is in the two bits at 2j of qs[32h + i].
BLOCK = np.dtype([("scales", "u1", 16), ("qs", "u1", (2, 32)), ("d", "<f2"), ("dmin", "<f2")])
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    q = blocks["qs"][:, :, None, :] >> SHIFTS  # (n, 2, 4, 32)
    q &= 3
    scales = blocks["scales"]  # (n, 16)
    d = half(blocks["d"])[:, None] * (scales & 0xF)
    low = half(blocks["dmin"])[:, None] * (scales >> 4)
    w = out.reshape(-1, 16, 16)
    np.multiply(d[:, :, None], q.reshape(-1, 16, 16), out=w)
    w -= low[:, :, None]


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])
    pin_half(blocks["dmin"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d", "dmin")


# Lane l has bytes 2l and 2l + 1 of qs, and in them four weights each, 32 apart.
CUDA = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    const unsigned int scale = block[AT_SCALES + sub];
    const float d = half_at(block + AT_D) * (float)(scale & 0xF);
    const float low = half_at(block + AT_DMIN) * (float)(scale >> 4);
    const unsigned char *qs = block + AT_QS + (sub >> 3 << 5) + ((sub & 1) << 4);
    const int shift = sub & 6;
    for (int i = 0; i < 16; ++i)
        w[i] = d * (float)(qs[i] >> shift & 3) - low;
}

// Two neighbours in the low bits of a pair's bytes.
__device__ __forceinline__ void decode_run(float d, float dmin, int scale, int pair, float *w) {
    const float ds = d * (float)(scale & 0xF);
    const float low = dmin * (float)(scale >> 4);
    w[0] = ds * (float)(pair & 3) - low;
    w[1] = ds * (float)(pair >> 8 & 3) - low;
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const float d = half_at(block + AT_D);
    const float dmin = half_at(block + AT_DMIN);
    const int pair = pair_at(block + AT_QS + 2 * lane);
    const unsigned char *scales = block + AT_SCALES + (lane >> 4 << 3) + (lane >> 3 & 1);
    decode_run(d, dmin, scales[0], pair, w);
    decode_run(d, dmin, scales[2], pair >> 2, w + 2);
    decode_run(d, dmin, scales[4], pair >> 4, w + 4);
    decode_run(d, dmin, scales[6], pair >> 6, w + 6);
}
"""

KIND = Kind(
    "Q2_K", BLOCK, ELEMENTS, Lanes(width=2, runs=4, stride=32), decode, pin, CUDA, lane_align=2, poke=poke
)
