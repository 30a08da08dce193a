"""What a declaration says, as frozen values; docs/CATALOGS.md has every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kernels.declared.mistake import Place
from kernels.declared.pack import CUBIN
from kernels.declared.table import Formula
from kernels.dtypes import STORED

# Types of scalar arguments as CUDA names them by size, and as numpy does.
DTYPES = {"i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8", "f32": "f4", "f64": "f8"}
# Types of scratch buffers.
BUFFER_DTYPES = {
    **DTYPES, "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "f16": "f2", "bf16": "bf16",
}  # fmt: skip
# Types that activations may have, and what an output may be in a buffer; q8_1 is bytes, of ops that quantize.
VALUE_DTYPES = tuple(STORED)
OUTPUT_DTYPES = {**STORED, "q8_1": "u1"}


class ComputesOn(StrEnum):
    """What a kernel makes of its float32 activations before it multiplies; the oracle does the same."""

    X = "x"  # nothing
    F16 = "f16"
    BF16 = "bf16"
    Q8_1 = "q8_1"


@dataclass(frozen=True)
class EntryPoint:
    """file.cu::symbol, with what a kind fills in: {kind}, {KIND}, {block_bytes}, {block_elements}."""

    file: str
    symbol: str
    place: Place

    @property
    def is_cubin(self) -> bool:
        return self.file.endswith(CUBIN)


@dataclass(frozen=True)
class Argument:
    """One argument of a launch: a buffer, a scalar of the op, an expression or a number."""

    place: Place
    buffer: str = ""
    scalar: str = ""  # eps
    value: Formula | float | None = None
    dtype: str = ""  # of DTYPES; empty for a buffer


@dataclass(frozen=True)
class StepOf:
    """One launch; a step of `setup` reads weights alone."""

    entry_points: Mapping[str, EntryPoint]  # by kind; under "" for all kinds
    args: tuple[Argument, ...]
    grid: tuple[Formula, ...]  # one to three
    block: tuple[Formula, ...]
    shared: Formula | None
    place: Place
    args_place: Place
    setup: bool = False

    def entry_point(self, kind: str) -> EntryPoint | None:
        return self.entry_points.get(kind) or self.entry_points.get("")


@dataclass(frozen=True)
class Scratch:
    """A buffer of the kernel's own."""

    name: str
    dtype: str  # of BUFFER_DTYPES
    shape: tuple[Formula, ...]
    fill: float | None
    place: Place


@dataclass(frozen=True)
class Output:
    """The output's type, what it is before a run, and whether repeats give the same bits."""

    dtype: str = "f32"  # of OUTPUT_DTYPES
    fill: float | None = None  # None: poison
    inout: str = ""  # the input whose place it takes
    deterministic: bool = True


@dataclass(frozen=True)
class Tolerance:
    """What is allowed instead of the rule for float32: units of 2^-24 S, or relative and absolute."""

    reason: str
    place: Place
    units: float | None = None
    relative: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True)
class Range:
    """What a size of the case must be; None: no matter."""

    multiple_of: int | None = None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Constraints:
    """Cases and devices that the kernel isn't for: they are SKIP."""

    sm: int = 0  # the least, 75
    align: Mapping[str, int] = field(default_factory=dict)  # input to the bytes its rows must start at
    sizes: Mapping[str, Range] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildOf:
    """How the files are compiled: std, defines and includes in every build, flags in the build declared."""

    std: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    include: tuple[str, ...] = ()  # folders of the pack
    flags: tuple[str, ...] = ()
    declared: bool = False  # whether the declaration has flags at all


@dataclass(frozen=True)
class Twin:
    """file.py::function: one argument, the step; it gives the output in float32."""

    file: str
    function: str
    place: Place


@dataclass(frozen=True)
class Declaration:
    """One kernel as its author declares it."""

    place: Place
    name: str
    op: str
    kinds: tuple[str, ...]  # in capitals; empty for ops without
    steps: tuple[StepOf, ...]  # setup first
    told: str  # canonical JSON of all that may change a result but for the flags of the build declared
    author: str = ""
    description: str = ""
    axes: tuple[tuple[str, Formula], ...] = ()  # derived sizes, in order
    x_dtype: str = "f32"  # of VALUE_DTYPES, for all activations
    computes_on: Mapping[str, ComputesOn] = field(default_factory=dict)  # by input
    layout: str = ""
    scratch: tuple[Scratch, ...] = ()
    output: Output = field(default_factory=Output)
    tolerance: Tolerance | None = None
    accumulates: Formula | None = None
    arithmetic: str = "factored"
    constraints: Constraints = field(default_factory=Constraints)
    build: BuildOf = field(default_factory=BuildOf)
    twin: Twin | None = None

    @property
    def id(self) -> str:
        return f"{self.op}/{self.name}"

    @property
    def allows(self) -> Place | None:
        """Where it says how far an output may be off; None where it says nothing of the sort."""
        if self.tolerance:
            return self.tolerance.place
        return self.accumulates.place if self.accumulates else None

    @property
    def setup(self) -> int:
        """How many of the steps are set-up."""
        return sum(step.setup for step in self.steps)
