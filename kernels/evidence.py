"""What came back: verdicts, comparisons, launches as they happened, and evidence, all frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernels import codec
from kernels.benchmark import Benchmark
from kernels.built import BuildRecord
from kernels.model import Case, Device, Grid


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


class Rule(StrEnum):
    """What decides a comparison; only `bound` is folded into cells."""

    BOUND = "bound"
    RELATIVE = "relative"
    EXACT = "exact"


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
    # Equals the twin bit for bit, NaN canonical and zeros unsigned, but for what `explained` says.
    bit_exact: bool
    twin_agrees: bool  # the twin itself is inside the bound
    worst: Worst | None
    worst_rows: tuple[tuple[int, float], ...] = ()  # (row, bound ratio), largest first, at most four
    # A kernel without a twin: the relative figure is against the oracle, and no bits are claimed to be equal.
    twinless: bool = False
    # NMSE against the oracle on the activations that the plan quantized; None where it quantizes none.
    float_nmse: float | None = codec.later(None)
    # The intrinsics by whose stated error alone the bits differ from the twin's: rsqrtf within 2 ulp.
    explained: str = codec.later("")

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
        """Equal where the same code came out under equal flags, plan and twin; empty where not known.

        What a launch takes differs from case to case; how it follows from a case is in the frame.
        """
        if not self.builds or not self.frame_digest:
            return ""
        made = sorted({(b.kernel, b.kind, b.arch, b.cubin_digest) for b in self.builds})
        return codec.digest([self.frame_digest, self.flags, made])
