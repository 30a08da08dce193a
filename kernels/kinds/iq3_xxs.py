"""IQ3_XXS, 256 weights in 98 bytes: w = d * (s + 1/2) / 2 * ±GRID[q], q a byte for 4, s 4 bits for 32."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves
from kernels.kinds._grids import CUDA as GRIDS
from kernels.kinds._grids import DECODE16, SIGN_FACTORS, SIGNS, grid, signed

ELEMENTS = 256
# qs[k] is q of weights 4k..4k+3. Of weights 32g..32g+31, scales[g] has seven bits for the signs of every
# eight and s in the top four.
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", 64), ("scales", "<u4", (8, 1))])
GRID = grid(quants.IQ3_XXS)  # (256,) uint32
SHIFTS = np.arange(0, 28, 7, dtype=np.uint32)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    packed = blocks["scales"]  # (n, 8, 1)
    q = signed(GRID.take(blocks["qs"]), SIGN_FACTORS.take(packed >> SHIFTS & 127))
    s = (packed[:, :, 0] >> 28).astype(np.float32)
    d = half(blocks["d"])[:, None] * (np.float32(0.5) + s) * np.float32(0.5)
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
    const unsigned int packed = bytes_at(block + AT_SCALES + 4 * (lane >> 2));
    const unsigned int signs = SIGNS[packed >> 7 * (lane & 3) & 127];
    const float d = half_at(block + AT_D) * (0.5f + (float)(packed >> 28)) * 0.5f;
    for (int i = 0; i < 4; ++i) {
        w[i] = d * signed_weight(&GRID[qs[0]], i, signs >> i);
        w[4 + i] = d * signed_weight(&GRID[qs[1]], i, signs >> (4 + i));
    }
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ3_XXS",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID), ("SIGNS", SIGNS)),
    poke=poke,
)
