"""What a quantized weight format is: block layout, decode, pinning rule and the CUDA text that decodes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

WARP = 32


@dataclass(frozen=True)
class Lanes:
    """Which weights of a block a warp's lane decodes: `runs` runs of `width` neighbours, `stride` apart.

    Lane l starts at (l*width // stride)*stride*runs + (l*width) % stride, so that the bytes read by
    neighbouring lanes are neighbours.
    """

    width: int
    runs: int
    stride: int

    @property
    def weights(self) -> int:
        return self.width * self.runs

    def elements(self) -> np.ndarray:
        """(32, weights) int64: the element index of every weight of every lane, in the order it is added."""
        first = np.arange(WARP, dtype=np.int64) * self.width
        first = first // self.stride * self.stride * self.runs + first % self.stride
        steps = np.arange(self.runs)[:, None] * self.stride + np.arange(self.width)
        return first[:, None] + steps.reshape(1, -1)


@dataclass(frozen=True)
class Kind:
    """One quantized format; `w = …` stands in its module's first line."""

    name: str  # as GGML writes it, in capitals
    block: np.dtype[Any]  # the block's fields; sizes and offsets come from here alone
    elements: int  # weights in a block
    lanes: Lanes
    decode: Callable[[np.ndarray], np.ndarray]  # (n,) block -> (n, elements) float32, F32's a view
    pin: Callable[[np.ndarray], None]  # makes the scales of (n,) random blocks finite, in place
    cuda: str  # decode16(block, sub, w) and decode_lane(block, lane, w), using the defines of source.py
    tables: tuple[tuple[str, np.ndarray], ...] = ()  # constant tables that the text reads
    lane_align: int = 1  # bytes: what decode_lane's widest load needs of every block's address
    # Sets every scale of (n,) blocks to (n,) uint16 bits, float16 or a byte in the low half: the family
    # `specials`.
    poke: Callable[[np.ndarray, np.ndarray], None] | None = None
    special_scales: tuple[int, ...] = ()  # what it pokes; float16's NaN, Inf, subnormals, … unless given
    # A float32 scale of the whole tensor stands beside the blocks: a scalar of every op that reads them,
    # applied once to a finished sum and to no weight.
    tensor_scale: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a weight is a number of its own, without a scale: the block's one field is `w`."""
        return self.block.names == ("w",)

    @property
    def block_bytes(self) -> int:
        return self.block.itemsize

    def row_bytes(self, cols: int) -> int:
        """Bytes of a packed row of `cols` weights."""
        return cols // self.elements * self.block_bytes

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """(rows, packed row bytes) uint8 -> (rows, cols) float32, bit for bit what ggml decodes."""
        blocks = np.ascontiguousarray(rows).view(self.block)  # (rows, blocks)
        return self.decode(blocks.reshape(-1)).reshape(len(rows), -1)


CHUNK_WEIGHTS = 1 << 16  # decoded at a time: a chunk and its temporaries stay in a core's cache

Fill = Callable[[np.ndarray, np.ndarray], None]  # (n,) block, (n, elements) float32 to write


def chunked(elements: int) -> Callable[[Fill], Callable[[np.ndarray], np.ndarray]]:
    """Makes a kind's decode of a function that fills an output; Inf and NaN scales pass without a warning."""

    def decorate(fill: Fill) -> Callable[[np.ndarray], np.ndarray]:
        @wraps(fill)
        def decode(blocks: np.ndarray) -> np.ndarray:
            out = np.empty((len(blocks), elements), np.float32)
            step = CHUNK_WEIGHTS // elements
            with np.errstate(invalid="ignore", over="ignore"):
                for first in range(0, len(blocks), step):
                    fill(blocks[first : first + step], out[first : first + step])
            return out

        return decode

    return decorate


def nibbles(packed: np.ndarray) -> np.ndarray:
    """(…, k) uint8 -> (…, 2, k) uint8: the low nibbles, then the high ones."""
    out = np.empty((*packed.shape[:-1], 2, packed.shape[-1]), np.uint8)
    np.bitwise_and(packed, 0xF, out=out[..., 0, :])
    np.right_shift(packed, 4, out=out[..., 1, :])
    return out


def half(field: np.ndarray) -> np.ndarray:
    """float16 scales as float32, exactly; NaN and Inf stay what they are."""
    with np.errstate(invalid="ignore"):
        return field.astype(np.float32)


def pin_half(field: np.ndarray) -> None:
    """Sets the exponent of float16 fields to 11, in place: |d| in [2^-4, 2^-3), the rest stays random."""
    bits = field.view(np.uint16)
    bits &= 0x83FF
    bits |= 11 << 10


def poke_halves(blocks: np.ndarray, bits: np.ndarray, *fields: str) -> None:
    """Sets float16 fields to (n,) uint16 bits, in place."""
    for name in fields:
        blocks[name].view(np.uint16)[:] = bits
