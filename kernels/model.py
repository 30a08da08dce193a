"""What is asked: cases, the plans that they become, and the devices they run on, all frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from kernels import codec, dtypes
from kernels.layout import Packing


class Build(StrEnum):
    """How the CUDA text is compiled; `check` and `declared` never run unless named."""

    EXACT = "exact"
    DEFAULT = "default"
    CHECK = "check"
    DECLARED = "declared"


class Role(StrEnum):
    """What a buffer is to its plan."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"  # given like IN, written like OUT; it is read as it was given
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Shape:
    """Named sizes in the order of the op's grammar: matvec 37x768 is rows 37, cols 768."""

    axes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **sizes: int) -> Shape:
        return cls(tuple(sizes.items()))

    def to_json(self) -> tuple[tuple[str, int], ...]:
        return self.axes

    def __getitem__(self, name: str) -> int:
        return dict(self.axes)[name]

    def __str__(self) -> str:
        return "x".join(str(size) for _, size in self.axes)


@dataclass(frozen=True)
class Layout:
    """Where operands lie in memory, apart from packed and aligned."""

    row_padding: int = 0  # bytes behind every weight row, filled with 0xFF
    weights_offset: int = 0  # bytes from an aligned base to the first weight byte
    x_offset: int = 0  # bytes from an aligned base to the first activation, a multiple of its size
    x_slack: int = 0  # elements behind the activations, filled with NaN


@dataclass(frozen=True)
class Seeded:
    """Inputs made again from a seed, the same everywhere."""

    family: str
    seed: int
    fixture_version: int


@dataclass(frozen=True)
class FromFile:
    """Inputs read from a file that a worker holds, known by its SHA-256."""

    sha256: str
    tensors: tuple[str, ...] = ()  # one per weight matrix of the op; empty for a .npy file
    rows: int = 0  # rows sampled evenly, first and last included; 0 takes all


Source = Seeded | FromFile


def kind_label(kinds: tuple[str, ...]) -> str:
    """F32 without kinds, one name when all are equal, else a mix joined by +."""
    if not kinds:
        return "F32"
    return kinds[0] if len(set(kinds)) == 1 else "+".join(kinds)


@codec.recurrent
@dataclass(frozen=True)
class Case:
    """The identity of one check; its id is the digest of its canonical JSON."""

    op: str
    kernel: str
    kinds: tuple[str, ...]  # one per weight matrix of the op, empty for ops without
    shape: Shape
    weights: Source
    x: Source
    build: Build
    layout: Layout = field(default_factory=Layout)
    scalars: tuple[tuple[str, float], ...] = ()  # eps and the like, sorted by name
    x_dtype: str = "f32"
    out_dtype: str = "f32"
    packing: str = codec.later("")  # the kernel's weight layout; empty where it reads GGML's blocks

    @cached_property
    def id(self) -> str:
        return codec.digest(self)

    @property
    def inputs_key(self) -> str:
        """Equal for cases that read the same bytes: kernel and build don't matter."""
        parts = [
            self.op,
            list(self.kinds),
            dict(self.shape.axes),
            codec.encode(self.layout),
            dict(self.scalars),
        ]
        packing = [self.packing] if self.packing else []
        sources = codec.tagged(self.weights), codec.tagged(self.x)
        return codec.digest([*parts, self.x_dtype, *sources, *packing])

    @cached_property
    def kind(self) -> str:
        """The cell's label."""
        return kind_label(self.kinds)

    @property
    def family(self) -> str:
        return self.x.family if isinstance(self.x, Seeded) else "file"


@dataclass(frozen=True)
class Buffer:
    """A typed view in an allocation of its own: an image of `nbytes` bytes, the view starts at `offset`."""

    name: str
    dtype: str  # numpy's short names: u1, f2, f4, …; or bf16
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    offset: int  # bytes from the start of the image
    nbytes: int
    role: Role
    align: int = 16  # bytes, of the start of the image
    packing: Packing | None = None  # what it holds of a matrix in a weight layout
    fill: float | None = None  # of every element of an OUT or SCRATCH before a run; None: poison

    @property
    def given(self) -> bool:
        """Whether a case's inputs have an image of it."""
        return self.role in (Role.IN, Role.INOUT)

    @property
    def put_out(self) -> bool:
        """Whether the plan's result is in it."""
        return self.role in (Role.OUT, Role.INOUT)

    @property
    def viewed_bytes(self) -> int:
        """Of the logical array, without what lies around it and between its rows."""
        return math.prod(self.shape) * dtypes.dtype(self.dtype).itemsize

    def view(self, image: np.ndarray) -> np.ndarray:
        """The logical array inside a (nbytes,) uint8 memory image; no copy."""
        return np.ndarray(self.shape, dtypes.dtype(self.dtype), image, self.offset, self.strides)


def packed(name: str, shape: tuple[int, ...], role: Role, dtype: str = "f4") -> Buffer:
    """A contiguous row-major buffer at offset 0."""
    size = dtypes.dtype(dtype).itemsize
    strides = tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Buffer(name, dtype, shape, strides, 0, size * math.prod(shape), role)


@dataclass(frozen=True)
class BufferArg:
    """A pointer argument: what the kernel calls it, and the buffer whose view it points at."""

    role: str
    buffer: str


@dataclass(frozen=True)
class ScalarArg:
    """An argument passed by value."""

    role: str
    dtype: str  # i4, i8, u4, u8, f4, f8
    value: float


Arg = BufferArg | ScalarArg
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel; its text is `source.text(kernel, kind, unit)`."""

    kernel: str  # op/name of the kernel launched: matvec/block inside an ffn too
    kind: str  # kind whose decode body is in the text; empty for none
    entry: str
    args: tuple[Arg, ...]
    grid: Grid
    block: Grid
    dynamic_shared_bytes: int = 0
    static_shared_bytes: int = 0
    unit: str = ""  # which of the kernel's files has the entry; empty where it has one text
    library: bool = False  # a library does it, found by `entry`: there is no text, and grid and block are 0

    @property
    def scalars(self) -> dict[str, float]:
        return {arg.role: arg.value for arg in self.args if isinstance(arg, ScalarArg)}

    @property
    def buffers(self) -> dict[str, str]:
        """Role to buffer name; the roles `out` and `out2`, … are written, the rest is read."""
        return {arg.role: arg.buffer for arg in self.args if isinstance(arg, BufferArg)}


@dataclass(frozen=True)
class Options:
    """What a kernel asks of its compiler, in nvcc's words; backends translate them or refuse by name."""

    std: str = ""  # c++20; empty: the farm's own
    flags: tuple[str, ...] = ()  # in the build `declared` alone


@dataclass(frozen=True)
class Plan:
    """Buffers and the launches over them, in order on one stream."""

    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    build: Build
    # What is judged instead of the launches one by one, where a single one computes no op: launches in form,
    # with the roles of an op's operands and `out`.
    judged_as: tuple[Launch, ...] = ()
    setup: int = 0  # that many launches come first and read weights alone: once a model, timed apart
    deterministic: bool = True  # false: repeats may differ, and every one of them is judged
    options: Options = field(default_factory=Options)

    @property
    def checks(self) -> tuple[Launch, ...]:
        """What the judge looks at."""
        return self.judged_as or self.launches

    def buffer(self, name: str) -> Buffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def arrays(self, launch: Launch, images: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Role to logical array for one launch, views into `images`."""
        return {role: self.buffer(name).view(images[name]) for role, name in launch.buffers.items()}


@codec.recurrent
@dataclass(frozen=True)
class Device:
    """A board, or the CPU that plays one, as its worker describes it."""

    slug: str  # [a-z0-9_.-]+, one board
    device_class: str  # slug of what boards share
    name: str  # the vendor's name
    uuid: str
    slots: int = 1  # cases that may run at the same time
    fingerprint: tuple[tuple[str, str], ...] = ()  # model, cores, driver, compiler, …

    @cached_property
    def fingerprint_digest(self) -> str:
        return codec.digest(self)
