"""The nouns that cross rooms: verdicts, cases, plans and evidence, all frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from kernels import codec, dtypes
from kernels.benchmark import Benchmark
from kernels.built import BuildRecord
from kernels.layout import Packing


class Verdict(StrEnum):
    """How a job ends; the order is the severity in which a cell folds its cases, worst first."""

    FAIL = "FAIL"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    REJECT = "REJECT"
    ERROR = "ERROR"
    LOST = "LOST"
    PASS = "PASS"
    SKIP = "SKIP"

    @property
    def bad(self) -> bool:
        """True for the verdicts that make a command exit with 3."""
        return self not in (Verdict.PASS, Verdict.SKIP)

    @property
    def about_kernel(self) -> bool:
        """False for the two that say nothing about the kernel: they never replace an older verdict."""
        return self not in (Verdict.ERROR, Verdict.LOST)


class Build(StrEnum):
    """How the CUDA text is compiled; `check` and `declared` never run unless named."""

    EXACT = "exact"
    DEFAULT = "default"
    CHECK = "check"
    DECLARED = "declared"


class Rule(StrEnum):
    """What decides a comparison; only `bound` is folded into cells."""

    BOUND = "bound"
    RELATIVE = "relative"
    EXACT = "exact"


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

    @property
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

    @property
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

    @property
    def fingerprint_digest(self) -> str:
        return codec.digest(self)


@dataclass(frozen=True)
class LaunchRecord:
    """A launch as it happened, told by the backend and not by the plan."""

    kernel: str
    entry: str
    grid: Grid
    block: Grid
    static_shared_bytes: int
    dynamic_shared_bytes: int
    symbol_digest: str  # of the module that was loaded; empty for a library's
    elapsed_us: float
    library: str = codec.later("")  # which one did it, with its version; empty for a text's


@dataclass(frozen=True)
class Worst:
    """The element furthest beyond (or nearest to) its limit."""

    launch: int  # number of the launch in the plan
    kernel: str
    buffer: str
    index: tuple[int, ...]
    got: float
    want: float
    twin: float
    limit: float
    block: str = ""  # hex of the row's weight block with the largest share in this element's sum


@dataclass(frozen=True)
class Comparison:
    """What comparing one case's outputs found; ratios are error over limit, so 1 is the edge."""

    verdict: Verdict  # by the bound rule: PASS, FAIL, or ERROR where the fixture is at fault
    reason: str
    judge: str  # oracle, twin, or both where the domain rule says so; +projection where sums were judged
    positions: int
    bad: int  # elements outside the bound
    bound_ratio: float
    relative_ratio: float
    nan_positions_equal: bool
    nmse: float
    bit_exact: bool  # equals the twin bit for bit, NaN canonical and zeros unsigned
    twin_agrees: bool  # the twin itself is inside the bound
    worst: Worst | None
    worst_rows: tuple[tuple[int, float], ...] = ()  # (row, bound ratio), largest first, at most four
    # A kernel without a twin: the relative figure is against the oracle, and no bits are claimed to be equal.
    twinless: bool = False
    # NMSE against the oracle on the activations that the plan quantized; None where it quantizes none.
    float_nmse: float | None = codec.later(None)

    def passes(self, rule: Rule) -> bool:
        """By one rule's figure; where the fixture is at fault nothing is known, so no rule passes."""
        by_rule = {
            Rule.BOUND: self.verdict is Verdict.PASS,
            Rule.RELATIVE: self.relative_ratio <= 1 and self.nan_positions_equal,
            Rule.EXACT: self.bit_exact,
        }
        return self.verdict is not Verdict.ERROR and by_rule[rule]


@dataclass(frozen=True)
class Evidence:
    """One attempt at one case on one device: append-only, enough to repeat and to distrust it."""

    evidence_id: str  # UUID made by the worker when it starts the case
    case: Case
    case_id: str
    source_digest: str
    inputs_digest: str
    output_digest: str
    device: Device
    backend: str
    verdict: Verdict
    reason: str
    comparison: Comparison | None
    repeats: int
    launches: tuple[LaunchRecord, ...]
    compiler: str
    flags: str
    started_us: int  # since the epoch
    finished_us: int
    versions: tuple[tuple[str, str], ...]
    attempt_id: str = ""  # empty for a case run alone
    rule: Rule = Rule.BOUND
    rule_verdict: Verdict | None = None  # by `rule` when it isn't bound; stored, never folded
    substitutes: tuple[str, ...] = ()  # intrinsics that ran as their host twin
    timings_us: tuple[tuple[str, float], ...] = ()  # inputs, oracle, twin, compile, launch, compare
    origin: str = "worker"  # worker, coordinator, bundle
    trust: str = "own"  # own, rented, imported
    builds: tuple[BuildRecord, ...] = ()  # one per text, from a compiler that says what it made
    frame_digest: str = ""  # of all that belongs to the source except the CUDA texts; beside builds
    benchmark: Benchmark | None = codec.later(None)  # noqa: RUF009 - none, where it was not timed

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of its builds, each once."""
        return tuple(sorted({note for build in self.builds for note in build.notes}))

    @property
    def build_digest(self) -> str:
        """Equal where the same code came out under equal flags, plan and twin; empty where not known."""
        if not self.builds or not self.frame_digest:
            return ""
        made = sorted((b.kernel, b.kind, b.arch, b.threads, b.dynamic_shared_bytes, b.cubin_digest)
                      for b in self.builds)  # fmt: skip
        return codec.digest([self.frame_digest, self.flags, made])
