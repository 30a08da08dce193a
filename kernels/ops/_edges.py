"""The edges that the tiers of several ops go through."""

from __future__ import annotations

from kernels.kind import Kind
from kernels.model import Layout
from kernels.ops._linear import STRUCTURED

ON_ACTIVATIONS = (*STRUCTURED, "large", "heavy_tailed")  # families that say something about activations alone
EVERY_FAMILY = (*ON_ACTIVATIONS, "extreme")  # `last_row` apart, which is for long matrices
ROWS = (1, 7, 8, 9, 37, 63, 64, 65, 71)  # around a warp's, a block's and a tile's
MANY_ROWS = (65535, 65536, 65537)  # around the largest grid.y
BLOCKS = (1, 2, 3, 27, 256, 257)  # a row's: odd ones, and more than a block of threads takes in a turn
COLS = (32, 96, 1056)  # whole blocks of small kinds only
EXTREME_ROWS = 2560  # with which the family `extreme` has met every scale
# Bytes off an aligned base, and behind every row: what a kernel's wide loads can't take is refused by name.
LAYOUTS = (
    *(Layout(weights_offset=offset) for offset in (1, 2, 4, 16)),
    *(Layout(row_padding=padding) for padding in (1, 2, 4, 16)),
)


def rows_past(kind: Kind, cols: int, nbytes: int) -> int:
    """Rows of packed weights of which the last one starts at `nbytes` or behind."""
    return -(-nbytes // kind.row_bytes(cols)) + 1
