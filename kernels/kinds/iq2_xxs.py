"""IQ2_XXS, 256 weights in 66 bytes: w = d * (s + 1/2) / 4 * ±GRID[q], q a byte for 8, s 4 bits for 32."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves
from kernels.kinds._grids import CUDA as GRIDS
from kernels.kinds._grids import DECODE16, SIGN_FACTORS, SIGNS, grid, signed

ELEMENTS = 256
# For weights 32g..32g+31: four q, then 32 bits, seven for the signs of every eight, s in the top four.
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (8, 8))])
GRID = grid(quants.IQ2_XXS)  # (256,) uint64
SHIFTS = np.arange(0, 28, 7, dtype=np.uint32)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    packed = np.ascontiguousarray(blocks["qs"][:, :, 4:]).view("<u4")  # (n, 8, 1)
    q = signed(GRID.take(blocks["qs"][:, :, :4]), SIGN_FACTORS.take(packed >> SHIFTS & 127))
    s = (packed[:, :, 0] >> 28).astype(np.float32)
    d = half(blocks["d"])[:, None] * (np.float32(0.5) + s) * np.float32(0.25)
    np.multiply(d[:, :, None], q.reshape(-1, 8, 32), out=out.reshape(-1, 8, 32))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


# In 66 bytes no word stays aligned.
CUDA = (
    GRIDS
    + """
__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const unsigned char *group = block + AT_QS + 8 * (lane >> 2);
    const unsigned int packed = bytes_at(group + 4);
    const unsigned int signs = SIGNS[packed >> 7 * (lane & 3) & 127];
    const float d = half_at(block + AT_D) * (0.5f + (float)(packed >> 28)) * 0.25f;
    for (int i = 0; i < 8; ++i)
        w[i] = d * signed_weight(&GRID[group[lane & 3]], i, signs >> i);
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ2_XXS",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID), ("SIGNS", SIGNS)),
    poke=poke,
)
