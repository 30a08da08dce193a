"""What an op and a kernel are: the contracts that every folder below ops/ fulfils."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kernels.kind import Kind
from kernels.model import Build, Case, Device, Grid, Layout, Plan, Shape
from kernels.models import Model


@dataclass(frozen=True)
class Axis:
    """One number of an op's shape grammar; an axis with a default may be left out at the end."""

    name: str
    default: int | None = None


@dataclass(frozen=True)
class Matrix:
    """A quantized weight matrix that a case reads."""

    name: str  # also its buffer's name
    kind: Kind
    rows: int  # of all experts together
    cols: int
    experts: int = 1  # matrices of equal size, one behind the other; truth and twin decode one at a time


@dataclass(frozen=True)
class Vector:
    """An array that a case reads, made in float32; `weights` is true for norm weights."""

    name: str  # also its buffer's name
    shape: tuple[int, ...]
    weights: bool = False
    dtype: str = "f32"  # that its buffer rounds it to: f16, bf16
    specials: tuple[float, ...] = ()  # what family `specials` puts at some positions
    exponents: tuple[int, ...] = ()  # powers of two: family `specials` scales the whole array by one of them


@dataclass(frozen=True)
class Ids:
    """An int32 array of expert numbers, tokens by slots, each at least 0 and less than `below`."""

    name: str  # also its buffer's name
    shape: tuple[int, int]
    below: int


Operand = Matrix | Vector | Ids
RowsCols = tuple[int, int]


@dataclass(frozen=True)
class Workload:
    """A shape worth running and how: one line of an op's tier."""

    shape: Shape
    families: tuple[str, ...] = ("ordinary",)
    layout: Layout = field(default_factory=Layout)
    repeats: int = 1
    scalars: tuple[tuple[str, float], ...] = ()
    narrow: tuple[str, ...] | None = None  # fewer families, enough for a kernel that is `narrow`


TENSOR_SCALE = "weights_scale"  # the argument of launches that read a kind with a scale of its tensor


@dataclass(frozen=True)
class Step:
    """One launch with its actual operands: what twin and truth compute on."""

    arrays: Mapping[str, np.ndarray]  # by role; weights are (rows, packed row bytes) uint8
    scalars: Mapping[str, float]
    kind: Kind | None
    family: str  # of the case, for the limit's coefficient
    given: bool  # true where the activations are the case's own, false for an intermediate

    @property
    def tensor_scale(self) -> float | None:
        """The scale of the matrix' tensor, a float32; None for kinds without one.

        KeyError where the launch leaves it out: a truth without it would agree.
        """
        if self.kind is None or not self.kind.tensor_scale:
            return None
        return self.scalars[TENSOR_SCALE]


@dataclass(frozen=True)
class Truth:
    """What an output must be, element by element, in the output's shape."""

    want: np.ndarray  # float64, from the oracle
    limit: np.ndarray  # float64, >= 0: the error allowed
    by_twin: np.ndarray  # bool: elements outside float32's domain, where the twin is the judge
    relative: float = 0.0  # allowed on top of the limit where the twin judges, relative to the twin
    scale: np.ndarray | None = None  # float64, S: what one unit of tolerance, 2^-24, is a share of
    sums: bool = False  # of products whose magnitudes add up to S


class Kernel(ABC):
    """One implementation of an op. `chain` and `arithmetic` are what its error bound is made of."""

    op: str
    name: str
    x_dtype: str = "f32"  # of the activations that its cases have
    out_dtype: str = "f32"
    packing: str = ""  # id of the weight layout that its matrices are in; empty: GGML's blocks
    float_x: str = (
        ""  # the buffer of float32 activations that its plan quantizes, which results are reported against
    )
    narrow: bool = False  # it is another kernel, but for activations of 16 bits
    builds: tuple[Build, ...] = (Build.EXACT, Build.DEFAULT)  # that run unless others are named
    lacks: tuple[Build, ...] = (Build.DECLARED,)  # builds that it has only if they are among its own

    @property
    def id(self) -> str:
        return f"{self.op}/{self.name}"

    def serves(self, kinds: tuple[str, ...]) -> bool:
        """Whether it exists for these kinds, one per matrix of the op; where not there is no cell to fill."""
        return True

    def families(self, workload: Workload, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Those that a plain submit runs it with, of one of its op's quick workloads."""
        fewer = workload.narrow if self.narrow else None
        return workload.families if fewer is None else fewer

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """Workloads that a plain submit runs of this kernel alone, beside those of its op."""
        return ()

    def refuses(self, case: Case) -> str:
        """Why this kernel won't run a case that its op accepts; empty if it will."""
        return ""

    def refuses_device(self, device: Device, executes: bool) -> str:
        """Why a device can't run, or a compiler not build, what this kernel is; empty if it can."""
        return ""

    @abstractmethod
    def plan(self, case: Case) -> Plan:
        """Buffers and launches: the one place that pairs kernel and geometry."""

    @abstractmethod
    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """The (kernel id, kind) texts that a case of these kinds launches."""


class LaunchKernel(Kernel):
    """A kernel that is one launch, with its CUDA body in a file of its own."""

    body: str  # file name of the CUDA body, beside the module
    reads_ints: bool = False  # whether its text takes a kind's weights as integers, by ints16
    before: tuple[str, ...] = ()  # files of functions that several bodies share; they stand before it
    ahead: tuple[str, ...] = ()  # files that stand before the kind's text: how it loads
    arithmetic: str = "decoded"  # or factored
    approximates: tuple[str, ...] = ()  # expf, rsqrtf: where a device may differ from the twin by ULPS

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return ((self.id, kinds[0] if kinds else ""),)

    def entry(self, kind: str) -> str:
        """The symbol of the launch: matvec_block_q4_0."""
        return "_".join(part for part in (self.op, self.name, kind.lower()) if part)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        """Defines given to the text, from the same numbers that twin and geometry use."""
        return {}

    @abstractmethod
    def twin(self, step: Step) -> np.ndarray | None:
        """The output in float32, every operation in the kernel's own order; None where nobody wrote one."""

    own_truth = False  # true: not the op's, so that no part of it may be taken apart as the op's may

    def truth(self, op: JudgedOp, step: Step) -> Truth:
        """What its output must be: the op's truth, unless it computes on something else than its operands."""
        return op.truth(self, step)

    def explains(self, step: Step, got: np.ndarray) -> bool:
        """Whether a device's own approximations, each within its stated error, give these very bits."""
        return False

    @abstractmethod
    def chain(self, step: Step) -> int:
        """The longest chain of additions that one output element goes through."""

    def held_to(self, step: Step, truth: Truth) -> Truth:
        """The truth of products with its matrix, by its own limits where it computes in less than float32."""
        return truth


class LibraryKernel(LaunchKernel):
    """A kernel that a library does: no text, no grid, and the library's own order of additions.

    Bits and accesses can't be vouched for, so that it has neither the exact build nor the check build.
    """

    builds = (Build.DEFAULT,)
    lacks = tuple(Build)

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return ()

    def refuses_device(self, device: Device, executes: bool) -> str:
        return "" if executes else f"{self.id} is a library's: there is no text to compile"


class SelfContained(LaunchKernel):
    """A kernel that brings its own texts and digests: none of them is kept beyond it."""

    @abstractmethod
    def text(self, kind: str, unit: str = "") -> str:
        """The translation unit of one of its files; without `unit` all of them."""

    def built(self, unit: str) -> bytes:
        """One of its files that is compiled already: a cubin; empty for a text."""
        return b""

    @abstractmethod
    def entries(self, kind: str) -> Mapping[str, tuple[str, ...]]:
        """The files with a text that a case of this kind launches, each with its entries' symbols."""

    @abstractmethod
    def digest(self, kinds: tuple[str, ...], build: Build) -> str:
        """What `source.digest` gives for it."""

    @abstractmethod
    def frame_digest(self, kinds: tuple[str, ...], build: Build) -> str:
        """What `source.frame_digest` gives for it."""


class Op(ABC):
    """What is computed: shape grammar, validation, inputs and truth."""

    name: str
    axes: tuple[Axis, ...]
    matrices: tuple[str, ...] = ()  # names of the weight matrices, each of a kind of its own
    scalars: tuple[tuple[str, float], ...] = ()  # defaults that every case has, sorted by name
    mixes: tuple[tuple[str, ...], ...] = ()  # kinds beside the pure ones that --all-kinds runs
    layer: tuple[str, ...] = ()  # the tensors of a model's layer that are its matrices: ffn_gate, ffn_up, …

    def scalars_of(self, kinds: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        """The scalars of a case of these kinds with their defaults, sorted by name."""
        return self.scalars

    @abstractmethod
    def refuses(self, case: Case) -> str:
        """Got and want of the first rule that a case breaks; empty if none."""

    @abstractmethod
    def operands(self, case: Case) -> tuple[Operand, ...]:
        """The inputs of a case, in a fixed order."""

    def shape_of(self, sizes: tuple[RowsCols, ...]) -> Shape | None:
        """The shape whose matrices have these sizes; None where they don't fit one another."""
        return None

    @abstractmethod
    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """The workloads that a plain submit runs; none of them is refused."""

    def full(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """What the tier `full` runs beside them: every edge; some are refused by name for some kinds."""
        return ()

    def of_model(self, model: Model) -> tuple[Workload, ...]:
        """What a real model asks of the op."""
        return ()

    def limits(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """Sizes just below and past what int32 offsets and grids hold."""
        return ()


class JudgedOp(Op):
    """An op whose launches are judged; an ffn is not one, its launches belong to other ops."""

    row_wise = False  # element r of the output's last axis depends on row r of `weights` and on no other

    @abstractmethod
    def truth(self, kernel: LaunchKernel, step: Step) -> Truth:
        """Oracle and limits for one launch on its actual operands."""

    def out_shape(self, case: Case) -> tuple[int, ...]:
        """The shape of the one output; empty where the op has none that a user's kernel could fill."""
        return ()

    def factors(self, step: Step, index: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """What output element `index` is the dot product of: (1, row bytes) uint8 weights, (cols,) x."""
        return step.arrays["weights"][index[-1] : index[-1] + 1], step.arrays["x"][index[:-1]]


def ceil_div(amount: int, size: int) -> int:
    return -(-amount // size)


def flat(blocks: int, threads: int) -> tuple[Grid, Grid]:
    """Grid and block of a one-dimensional launch."""
    return (blocks, 1, 1), (threads, 1, 1)
