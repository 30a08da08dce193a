"""IQ2_S, 256 weights in 82 bytes: w = d * (s + 1/2) / 4 * ±GRID[q], q 10 bits for 8, s 4 bits for 16."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds._grids import BYTE_FACTORS, DECODE16, grid, signed
from kernels.kinds._grids import CUDA as GRIDS

ELEMENTS = 256
# q of weights 8k..8k+7 has its low bits in qs[k], its top two at 2 * (k % 4) of qh[k / 4]; bit i of signs[k]
# is that of weight 8k + i. s of group 2g is in the low nibble of scales[g], that of 2g + 1 in the high one.
BLOCK = np.dtype(
    [("d", "<f2"), ("qs", "u1", 32), ("signs", "u1", 32), ("qh", "u1", (8, 1)), ("scales", "u1", (8, 1))]
)
GRID = grid(quants.IQ2_S)  # (1024,) uint64
SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    entry = (blocks["qh"] >> SHIFTS & 3).astype(np.uint16).reshape(-1, 32) << 8
    entry |= blocks["qs"]
    q = signed(GRID.take(entry), BYTE_FACTORS.take(blocks["signs"]))
    s = nibbles(blocks["scales"]).reshape(-1, 16).astype(np.float32)
    d = half(blocks["d"])[:, None] * (np.float32(0.5) + s) * np.float32(0.25)
    np.multiply(d[:, :, None], q.reshape(-1, 16, 16), out=out.reshape(-1, 16, 16))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


CUDA = (
    GRIDS
    + """
__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const int top = block[AT_QH + (lane >> 2)] >> 2 * (lane & 3) & 3;
    const int s = block[AT_SCALES + (lane >> 2)] >> (lane & 2) * 2 & 0xF;
    const unsigned int signs = block[AT_SIGNS + lane];
    const float d = half_at(block + AT_D) * (0.5f + (float)s) * 0.25f;
    for (int i = 0; i < 8; ++i)
        w[i] = d * signed_weight(&GRID[block[AT_QS + lane] | top << 8], i, signs >> i);
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ2_S",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID),),
    poke=poke,
)
