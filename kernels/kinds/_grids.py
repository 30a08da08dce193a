"""The codebooks and sign patterns of the IQ kinds, taken from the `gguf` package; how CUDA text reads them.

A codebook's entry is the weights of four or eight neighbours in one word, the first in its low byte.
"""

from typing import Any

import numpy as np
from gguf import quants


def grid(codebook: Any) -> np.ndarray:
    """(entries,) uint32 or uint64: a codebook of gguf's, such as quants.IQ3_S, with int8 weights in words."""
    codebook.init_grid()
    weights = codebook.grid.reshape(codebook.grid_shape).astype(np.int8)  # (entries, 4 or 8)
    words: np.ndarray = np.ascontiguousarray(weights).view(f"u{weights.shape[1]}")[:, 0]
    return words


def factors(signs: np.ndarray) -> np.ndarray:
    """(n,) uint8 -> (n,) uint64: eight int8, -1 for a bit that is set."""
    bits = np.unpackbits(signs[:, None], axis=1, bitorder="little").astype(np.int8)
    words: np.ndarray = (1 - 2 * bits).view("u8")[:, 0]
    return words


# Seven bits to eight signs, bit i for weight i; the eighth makes the number of negative ones even.
SIGNS = np.frombuffer(quants.IQ2_XXS.ksigns, np.uint8)
SIGN_FACTORS = factors(SIGNS)  # for a number of a pattern
BYTE_FACTORS = factors(np.arange(256, dtype=np.uint8))  # for eight signs as they are


def signed(entries: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Codebook entries, (n, …) words, times factors, (n, …) uint64: (n, weights) int8, in `entries`."""
    weights: np.ndarray = entries.reshape(len(entries), -1).view(np.int8)
    weights *= signs.reshape(len(signs), -1).view(np.int8)
    return weights


CUDA = """
// Weight i of a codebook's entry.
__device__ __forceinline__ int weight_of(const void *entry, int i) {
    return ((const signed char *)entry)[i];
}

// The same, negative where the low bit of `signs` is set.
__device__ __forceinline__ float signed_weight(const void *entry, int i, unsigned int signs) {
    const int weight = weight_of(entry, i);
    return (float)(signs & 1 ? -weight : weight);
}
"""

# A lane has the eight neighbours of decode_lane; so the upper half is decoded first, and what one of them
# wrote past its own would be seen.
DECODE16 = """
__device__ __forceinline__ void decode16(const unsigned char *block, int sub, float *w) {
    decode_lane(block, 2 * sub + 1, w + 8);
    decode_lane(block, 2 * sub, w);
}
"""
