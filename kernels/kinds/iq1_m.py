"""IQ1_M, 256 weights in 56 bytes: w = d * (2 * s + 1) * (GRID[q] ± 1/8), q 11 bits for 8, s 3 for 16."""

import numpy as np

from kernels.kind import Kind, Lanes, chunked, half, pin_half
from kernels.kinds._grids import CUDA as GRIDS
from kernels.kinds._grids import DECODE16
from kernels.kinds.iq1_s import EIGHTHS, GRID

ELEMENTS = 256
# q of weights 8k..8k+7 has its low bits in qs[k], its top three at 4 * (k % 2) of qh[k / 2]; the bit above
# says whether an eighth is taken off or added. s of group g is at 3 * (g % 4) of scales[g / 4], and the top
# nibbles of the four scales are the float16 d, its lowest nibble first.
BLOCK = np.dtype([("qs", "u1", 32), ("qh", "u1", (16, 1)), ("scales", "<u2", (4, 1))])
SHIFTS = np.arange(0, 12, 3, dtype=np.uint16)
NIBBLES = np.arange(0, 16, 4, dtype=np.uint16)[:, None]


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    qh = blocks["qh"] >> np.array([0, 4], np.uint8)  # (n, 16, 2)
    entry = (qh & 7).astype(np.uint16).reshape(-1, 32) << 8
    entry |= blocks["qs"]
    q = EIGHTHS.take(entry).view(np.int8).reshape(-1, 32, 8)
    q += np.where(qh & 8, np.int8(-1), np.int8(1)).reshape(-1, 32, 1)
    s = (blocks["scales"] >> SHIFTS & 7).reshape(-1, 16)
    d = half(d_bits(blocks).view(np.float16))[:, None] * (2 * s + 1) * np.float32(0.125)
    np.multiply(d[:, :, None], q.reshape(-1, 16, 16), out=out.reshape(-1, 16, 16))


def d_bits(blocks: np.ndarray) -> np.ndarray:
    """(n,) uint16: the float16 d, gathered."""
    bits: np.ndarray = np.bitwise_or.reduce(blocks["scales"] >> 12 << NIBBLES, axis=1)[:, 0]
    return bits


def pin(blocks: np.ndarray) -> None:
    bits = d_bits(blocks)
    pin_half(bits)
    poke(blocks, bits)


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    blocks["scales"] &= 0x0FFF
    blocks["scales"] |= bits[:, None, None] >> NIBBLES << 12


CUDA = (
    GRIDS
    + """
__device__ __forceinline__ float block_scale(const unsigned char *scales) {
    const int low = scales[1] >> 4 | (scales[3] & 0xF0);
    const int high = scales[5] >> 4 | (scales[7] & 0xF0);
    return half_bits_to_float((unsigned short)(low | high << 8));
}

__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const int qh = block[AT_QH + (lane >> 1)] >> 4 * (lane & 1);
    const unsigned char *pair = block + AT_SCALES + 2 * (lane >> 3);
    const int s = (pair[0] | pair[1] << 8) >> 3 * (lane >> 1 & 3) & 7;
    const float delta = qh & 8 ? -0.125f : 0.125f;
    const float d = block_scale(block + AT_SCALES) * (float)(2 * s + 1);
    for (int i = 0; i < 8; ++i)
        w[i] = d * ((float)weight_of(&GRID[block[AT_QS + lane] | (qh & 7) << 8], i) + delta);
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ1_M",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID),),
    poke=poke,
)
