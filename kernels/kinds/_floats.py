"""Special values of float16 as a float32 has them: what the family `specials` puts into F32 and BF16."""

import numpy as np

LARGE = (
    127 + 96
)  # exponent field: no sum of products leaves float32, whose order and contraction would matter
# float16's exponent field to float32's: zero, subnormals, the smallest normal ones and Inf stay that, the
# largest become about 2^97, what lies between keeps its value.
EXPONENTS = np.array([0, 1, *range(2 + 112, 30 + 112), LARGE, 255], np.uint32)
FRACTION = 0x7FFFFF  # float32's mantissa bits


def special_floats(halves: np.ndarray) -> np.ndarray:
    """(n,) uint16 float16 bits -> (n,) uint32 float32 bits of the same class and sign."""
    bits = halves.astype(np.uint32)
    fraction = bits & 0x3FF
    # The last bit alone stays the last bit, all of them stay all of them.
    wide = np.where(fraction == 1, np.uint32(1), fraction << 13)
    wide = np.where(fraction == 0x3FF, np.uint32(FRACTION), wide)
    return np.asarray((bits & 0x8000) << 16 | EXPONENTS[bits >> 10 & 31] << 23 | wide)
