"""IQ1_S, 256 weights in 50 bytes: w = d * (2 * s + 1) * (GRID[q] ± 1/8), q 11 bits for 8, s 3 for 32."""

import numpy as np
from gguf import quants

from kernels.kind import Kind, Lanes, chunked, half, pin_half, poke_halves
from kernels.kinds._grids import CUDA as GRIDS
from kernels.kinds._grids import DECODE16, grid

ELEMENTS = 256
# q of weights 8k..8k+7 has its low bits in qs[k], its top three at 3 * (k % 4) of qh[k / 4], which has s of
# these 32 weights at 12 and in bit 15 whether an eighth is taken off or added.
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", 32), ("qh", "<u2", (8, 1))])
GRID = grid(quants.IQ1_S)  # (2048,) uint64, every weight -1, 0 or 1
EIGHTHS = (GRID.view(np.int8) * np.int8(8)).view(GRID.dtype)
SHIFTS = np.arange(0, 12, 3, dtype=np.uint16)


@chunked(ELEMENTS)
def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    qh = blocks["qh"]  # (n, 8, 1)
    entry = (qh >> SHIFTS & 7).reshape(-1, 32) << 8
    entry |= blocks["qs"]
    q = EIGHTHS.take(entry).view(np.int8).reshape(-1, 8, 32)
    q += np.where(qh >> 15, np.int8(-1), np.int8(1))
    d = half(blocks["d"])[:, None] * (2 * (qh[:, :, 0] >> 12 & 7) + 1) * np.float32(0.125)
    np.multiply(d[:, :, None], q, out=out.reshape(-1, 8, 32))


def pin(blocks: np.ndarray) -> None:
    pin_half(blocks["d"])


def poke(blocks: np.ndarray, bits: np.ndarray) -> None:
    poke_halves(blocks, bits, "d")


CUDA = (
    GRIDS
    + """
__device__ __forceinline__ void decode_lane(const unsigned char *block, int lane, float *w) {
    const unsigned char *pair = block + AT_QH + 2 * (lane >> 2);
    const unsigned int qh = pair[0] | pair[1] << 8;
    const unsigned int top = qh >> 3 * (lane & 3) & 7;
    const float delta = qh >> 15 ? -0.125f : 0.125f;
    const float d = half_at(block + AT_D) * (float)(2 * (qh >> 12 & 7) + 1);
    for (int i = 0; i < 8; ++i)
        w[i] = d * ((float)weight_of(&GRID[block[AT_QS + lane] | top << 8], i) + delta);
}
"""
    + DECODE16
)

KIND = Kind(
    "IQ1_S",
    BLOCK,
    ELEMENTS,
    Lanes(width=8, runs=1, stride=256),
    decode,
    pin,
    CUDA,
    tables=(("GRID", GRID),),
    poke=poke,
)
