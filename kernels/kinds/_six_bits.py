"""The six-bit scales s and mins m of eight groups in twelve bytes, as Q4_K and Q5_K pack them."""

import numpy as np

# s of group g < 4 is in the low six bits of scales[g], m in those of scales[g + 4]. For g >= 4 the nibbles
# of scales[g + 4] are the low bits of s and m; the two bits left in scales[g - 4] and scales[g] are their top
# ones.


def group_scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 12) uint8 -> s and m, each (n, 8) uint8."""
    a, b, c = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    s = np.concatenate([a & 63, (c & 0xF) | (a >> 6) << 4], axis=1)
    m = np.concatenate([b & 63, c >> 4 | (b >> 6) << 4], axis=1)
    return s, m


CUDA = """
// s in the low byte, m in the next.
__device__ __forceinline__ unsigned int group_scales(const unsigned char *scales, int group) {
    if (group < 4)
        return (scales[group] & 63) | (scales[group + 4] & 63) << 8;
    const unsigned int nibbles = scales[group + 4];
    return (nibbles & 0xF) | (scales[group - 4] >> 6) << 4 | (nibbles >> 4 | (scales[group] >> 6) << 4) << 8;
}
"""
