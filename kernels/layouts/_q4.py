"""What the layouts of Q4_0 share: nibbles in 32-bit words, and scales apart from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.kind import Kind, nibbles
from kernels.layout import Part

WORD_ELEMENTS = 8  # nibbles in 32 bits
WORDS = 4  # of a block of 32 weights: one load of 16 bytes
KINDS = ("Q4_0",)


def parts_of(scale: str) -> tuple[Part, Part]:
    """The words of all blocks, then their scales of dtype `scale`, f2 or f4."""
    return (
        Part("quants", "u4", lambda kind, rows, cols: (rows, cols // kind.elements, WORDS), align=4 * WORDS),
        Part("scales", scale, lambda kind, rows, cols: (rows, cols // kind.elements), align=int(scale[1])),
    )


def split(kind: Kind, rows: np.ndarray, order: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(rows, packed row bytes) of GGML blocks -> (rows, blocks, 4) uint32, (rows, blocks) float16."""
    blocks = np.ascontiguousarray(rows).view(kind.block)
    elements = nibbles(blocks["qs"]).reshape(*blocks.shape, WORDS, WORD_ELEMENTS)
    return words(elements, order), blocks["d"]


def joined(kind: Kind, quants: np.ndarray, scales: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """What `split` was given."""
    blocks = np.empty(quants.shape[:2], kind.block)
    low_high = elements_of(quants, order).reshape(*blocks.shape, 2, -1)
    blocks["qs"] = low_high[..., 0, :] | low_high[..., 1, :] << 4
    blocks["d"] = scales
    return blocks.view(np.uint8).reshape(len(blocks), -1)


def words(elements: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """(…, 8) nibbles -> (…) uint32; nibble i of a word, low first, is element order[i]."""
    out = np.zeros(elements.shape[:-1], np.uint32)
    for place, element in enumerate(order):
        out |= elements[..., element].astype(np.uint32) << np.uint32(4 * place)
    return out


def elements_of(packed: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """(…) uint32 -> (…, 8) uint8 nibbles in the order of the elements."""
    out = np.empty((*packed.shape, WORD_ELEMENTS), np.uint8)
    for place, element in enumerate(order):
        out[..., element] = packed >> np.uint32(4 * place) & np.uint32(0xF)
    return out


def widened(halves: np.ndarray) -> np.ndarray:
    """float16 as float32, exactly; a NaN keeps sign and payload, also a signalling one."""
    bits = np.ascontiguousarray(halves).view(np.uint16).astype(np.uint32)
    odd = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    with np.errstate(invalid="ignore"):
        plain = halves.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(halves), odd, plain).astype(np.uint32).view(np.float32)


def narrowed(floats: np.ndarray) -> np.ndarray:
    """The float16 that `widened` made these of."""
    bits = np.ascontiguousarray(floats).view(np.uint32)
    odd = bits >> 16 & 0x8000 | 0x7C00 | bits >> 13 & 0x3FF
    with np.errstate(invalid="ignore", over="ignore"):
        plain = floats.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(floats), odd, plain).astype(np.uint16).view(np.float16)
