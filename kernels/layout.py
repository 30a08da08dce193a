"""What a weight layout is: a lossless way to turn a matrix of GGML blocks into the buffers a kernel reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernels.kind import Kind

# (kind, (rows, packed row bytes) uint8 of GGML blocks) -> part's name to its array
Pack = Callable[[Kind, np.ndarray], Mapping[str, np.ndarray]]
# (kind, rows, cols, part's name to its array) -> the (rows, packed row bytes) uint8 that were packed
Unpack = Callable[[Kind, int, int, Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Part:
    """One of the arrays that a layout makes of a matrix; each is a buffer of its own."""

    name: str
    dtype: str  # numpy's short name: u1, u4, f2, …
    shape: Callable[[Kind, int, int], tuple[int, ...]]  # of kind, rows and cols
    align: int  # bytes: what the widest load of its readers needs

    def nbytes(self, kind: Kind, rows: int, cols: int) -> int:
        """Without padding."""
        return math.prod(self.shape(kind, rows, cols)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class WeightLayout:
    """One layout; where a matrix is given as GGML has it, there is none.

    Twin, judge and oracle get what `unpack` gives: GGML blocks, whatever the kernel reads.
    """

    id: str  # also its file's name
    kinds: tuple[str, ...]  # that it can hold
    parts: tuple[Part, ...]
    pack: Pack
    unpack: Unpack


@dataclass(frozen=True)
class Packing:
    """What a buffer holds instead of a matrix of GGML blocks: one part of that matrix in a layout."""

    layout: str  # id
    part: str  # its name there
    matrix: str  # the operand's name
    kind: str
    rows: int
    cols: int
