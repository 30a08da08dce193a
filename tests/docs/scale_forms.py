"""How kinds write their scales: which bits stand for one, for a large one, and which are worth a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kernels import oracle
from kernels.kind import Kind
from kernels.kinds import iq1_m

HALVES = {
    0x7C00: "+Inf",
    0xFC00: "-Inf",
    0x7E00: "NaN",
    0x7D01: "signalling NaN",
    0xFE00: "-NaN",
    0x0000: "+0",
    0x8000: "-0",
    0x0001: "smallest subnormal",
    0x8001: "-smallest subnormal",
    0x03FF: "largest subnormal",
    0x0400: "smallest normal",
    0x7BFF: "max",
    0xFBFF: "-max",
    0x3C00: "1",
    0xBC00: "-1",
    0x3555: "1/3",
}


@dataclass(frozen=True, eq=False)
class ScaleForm:
    """One way to write a scale."""

    name: str
    one: int  # the bits of scale 1
    large: int  # of one whose sums float16 hasn't
    poked: tuple[int, ...]  # of the rows of one sign
    special: frozenset[int]  # of ggml's special blocks
    names: Mapping[int, str] = field(default_factory=dict)  # words for the bits, where they are a float16's

    def label(self, bits: int) -> str:
        return self.names[bits] if self.halves else str(bits)

    @property
    def halves(self) -> bool:
        """Whether the bits are those of a float16."""
        return bool(self.names)


HALF = ScaleForm(
    "float16",
    one=0x3C00,
    large=0x5484,  # 72.25
    poked=(0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0xFBFF, 0x0000, 0x8000, 0x0001, 0x03FF),
    special=frozenset(HALVES),
    names=HALVES,
)
# Weights with float32's exponents, poked with a float16's class: Inf for Inf, subnormals for subnormals.
# The largest one's products overflow, so that 2^97 stands for it.
WIDE = replace(HALF, name="float32's exponents", names=HALVES | {0x7BFF: "2^97", 0xFBFF: "-2^97"})
E8M0 = ScaleForm(
    "E8M0",
    one=127,
    large=132,  # 2^5
    poked=(0, 1, 2, 127, 253, 254, 255),
    special=frozenset((0, 1, 2, 254, 255)),
)
E4M3 = ScaleForm(
    "E4M3",
    one=0x38,
    large=0x69,  # 72
    poked=(0x00, 0x01, 0x07, 0x08, 0x38, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF),
    special=frozenset((0, 1, 7, 8, 56, 63, 112, 119, 120, 126, 127, 128, 129, 184, 254, 255)),
)

FIELDS = ("d", *oracle.MIN_FIELDS, "e", "w")  # F16, BF16 and F32 have weights only
# Kinds whose d is no field of its own: the field it lies in, and (n,) block -> (n,) uint16.
ELSEWHERE: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {"IQ1_M": ("scales", iq1_m.d_bits)}


def form_of(kind: Kind) -> ScaleForm:
    """By the type of its first scale: E8M0 bytes are called `e`."""
    if kind.name in ELSEWHERE:
        return HALF
    field = fields_of(kind)[0]
    if field == "e":
        return E8M0
    if kind.is_plain and kind.block[field].base != np.float16:
        return WIDE
    return E4M3 if kind.block[field].base.itemsize == 1 else HALF


def fields_of(kind: Kind) -> list[str]:
    """The fields of a block that its scales lie in."""
    if kind.name in ELSEWHERE:
        return [ELSEWHERE[kind.name][0]]
    return [name for name in FIELDS if name in (kind.block.names or ())]


def names_of(kind: Kind) -> list[str]:
    """What its scales are called, in the order of scale_bits."""
    return ["d"] if kind.name in ELSEWHERE else fields_of(kind)


def scale_bits(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    """(n, block bytes) uint8 -> (n, scales) int: the bits of every scale of a block."""
    view = np.ascontiguousarray(blocks).view(kind.block)[:, 0]
    if kind.name in ELSEWHERE:
        return ELSEWHERE[kind.name][1](view)[:, None].astype(int)
    columns = [view[name].view(f"u{kind.block[name].base.itemsize}") for name in fields_of(kind)]
    return np.concatenate([column.astype(int).reshape(len(view), -1) for column in columns], axis=1)
