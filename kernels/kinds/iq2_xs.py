"""IQ2_XS, 256 weights in 74 bytes: w = d * (s + 1/2) / 4 * ±GRID[q], q 9 bits for 8, s 4 bits for 16."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, nibbles, pin_half, poke_halves
from kernels.kinds._grids import CUDA as GRIDS
from kernels.kinds._grids import DECODE16, SIGN_FACTORS, SIGNS, grid, signed

ELEMENTS = 256
# qs[k] has q of weights 8k..8k+7 in its low nine bits, their sign pattern in the others. s of group 2g is in
# the low nibble of scales[g], that of group 2g + 1 in the high one.
BLOCK = np.dtype([("d", "<f2"), ("qs", "<u2", 32), ("scales", "u1", (8, 1))])
GRID = grid(quants.IQ2_XS)  # (512,) uint64


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    qs = blocks["qs"]
    q = signed(GRID.take(qs & 511), SIGN_FACTORS.take(qs >> 9))
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
    const unsigned char *pair = block + AT_QS + 2 * lane;
    const unsigned int q = pair[0] | pair[1] << 8;
    const unsigned int signs = SIGNS[q >> 9];
    const int s = block[AT_SCALES + (lane >> 2)] >> (lane & 2) * 2 & 0xF;
    const float d = half_at(block + AT_D) * (0.5f + (float)s) * 0.25f;
    for (int i = 0; i < 8; ++i)
        w[i] = d * signed_weight(&GRID[q & 511], i, signs >> i);
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ2_XS",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID), ("SIGNS", SIGNS)),
    poke=poke,
)
