"""IQ4_XS as integers: w = d * (s - 32) * VALUES[q]."""

import numpy as np

from kernels.ints._ints import LOOKED_UP, Ints, pieces
from kernels.kind import half, nibbles
from kernels.kinds.iq4_nl import VALUES
from kernels.kinds.iq4_xs import SHIFTS


def split(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    s = (blocks["scales_h"][:, None] >> SHIFTS & 3).astype(np.uint8) << 4  # (n, 8)
    s |= nibbles(blocks["scales_l"]).reshape(-1, 8)
    scale = half(blocks["d"])[:, None] * (s.view(np.int8) - np.int8(32))
    return VALUES.take(nibbles(blocks["qs"]).reshape(-1, 256)), pieces(scale), None


CUDA = (
    LOOKED_UP
    + """
__device__ __forceinline__ void ints16(const unsigned char *block, int sub, int *q, float *scale) {
    for (int i = 0; i < 4; ++i)
        q[i] = looked_up(word_at(block + AT_QS + (sub >> 1 << 4) + 4 * i) >> ((sub & 1) << 2));
    *scale = group_scale(block, sub >> 1);
}
"""
)

INTS = Ints(split, CUDA)
