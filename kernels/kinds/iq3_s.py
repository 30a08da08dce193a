"""IQ3_S, 256 weights in 110 bytes: w = d * (2 * s + 1) * ±GRID[q], q 9 bits for 4, s 4 bits for 32."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds._grids import BYTE_FACTORS, DECODE16, grid, signed
from kernels.kinds._grids import CUDA as GRIDS

ELEMENTS = 256
# q of weights 4k..4k+3 has its low bits in qs[k], the ninth in bit k % 8 of qh[k / 8]; bit i of signs[k] is
# the sign of weight 8k + i. s of group 2g is in the low nibble of scales[g], that of 2g + 1 in the high one.
BLOCK = np.dtype(
    [("d", "<f2"), ("qs", "u1", 64), ("qh", "u1", 8), ("signs", "u1", 32), ("scales", "u1", (4, 1))]
)
GRID = grid(quants.IQ3_S)  # (512,) uint32


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    entry = np.unpackbits(blocks["qh"], axis=1, bitorder="little").astype(np.uint16) << 8  # (n, 64)
    entry |= blocks["qs"]
    q = signed(GRID.take(entry), BYTE_FACTORS.take(blocks["signs"]))
    s = nibbles(blocks["scales"]).reshape(-1, 8)
    d = half(blocks["d"])[:, None] * (1 + 2 * s)
    np.multiply(d[:, :, None], q.reshape(-1, 8, 32), out=out.reshape(-1, 8, 32))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


CUDA = (
    GRIDS
    + """
__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const unsigned char *qs = block + AT_QS + 2 * lane;
    const int ninths = block[AT_QH + (lane >> 2)] >> 2 * (lane & 3);
    const int s = block[AT_SCALES + (lane >> 3)] >> (lane & 4) & 0xF;
    const unsigned int signs = block[AT_SIGNS + lane];
    const float d = half_at(block + AT_D) * (float)(2 * s + 1);
    for (int i = 0; i < 4; ++i) {
        w[i] = d * signed_weight(&GRID[qs[0] | (ninths & 1) << 8], i, signs >> i);
        w[4 + i] = d * signed_weight(&GRID[qs[1] | (ninths & 2) << 7], i, signs >> (4 + i));
    }
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ3_S",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID),),
    poke=poke,
)
