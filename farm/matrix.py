"""The capability matrix: every kernel, kind and build on every device, with a verdict where something ran.

matrix = pivot(capabilities, claims, devices, target_gpus(), catalog_digest, now_us)
matrix.of_device("cpu-*").of_build("exact").by_class().across_builds()    # each gives another Matrix
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from db.capability import RUNGS, SEVERITY, Capability, holds_for
from db.sabotage import Score
from farm.targets import TargetGpu
from kernels.errors import UsageError
from kernels.model import Device, Verdict

OF_TEXTS = {"host", "builds"}  # rungs that speak of a CUDA text
CPU_RUNGS = {"twin": ("twin", "host"), "host": ("host",)}  # rung -> backends whose evidence shows it on a CPU


class Row(NamedTuple):
    """What a cell is about, apart from where it runs."""

    op: str
    kernel: str
    kind: str  # the cell's label: F32, Q4_K or Q4_K+Q4_K+Q6_K
    build: str


@dataclass(frozen=True)
class Claim:
    """A row that the reader's catalog has, and the source that it stands for now."""

    row: Row
    source_digest: str  # empty where this catalog has no such kernel or kind
    listed: bool = True  # false: only evidence names it, so it has cells only where it ran
    packing: str = ""  # the kernel's weight layout; empty: GGML's blocks
    library: bool = False  # a library does it: what one machine's shows says nothing about another's


@dataclass(frozen=True)
class Column:
    """One board and backend, or a target GPU that no board fills yet."""

    device_class: str
    device: str  # slug of the board; empty for a target, and for a class of several boards
    name: str
    uuid: str
    backend: str
    sm: str  # sm_86; empty for a CPU


@dataclass(frozen=True)
class Cell:
    """One kernel, kind and build in one column; without a verdict it was never run, whatever the rungs."""

    device_class: str
    device: str | None  # None for a target GPU, and for a class of several boards
    backend: str
    op: str
    kernel: str
    kind: str
    build: str  # where builds are taken together: those that ran, or all if none did, joined by +
    verdict: Verdict | None
    flags: tuple[str, ...]
    rungs: tuple[str, ...]
    cases: int
    positions: int
    bound_ratio: float | None
    relative_ratio: float | None
    nmse: float | None
    bit_exact: bool | None
    source_digest: str
    last_run_us: int | None
    reason: str
    packing: str = ""  # the kernel's weight layout; empty: GGML's blocks

    @property
    def row(self) -> Row:
        return Row(self.op, self.kernel, self.kind, self.build)

    @property
    def name(self) -> str:
        """As `farm show` takes it; several builds together are named by none."""
        device = self.device or self.device_class
        builds = (self.build,) if "+" not in self.build else ()
        return "/".join((device, self.backend, self.op, self.kernel, self.kind, *builds))


@dataclass(frozen=True)
class Sabotaged:
    """How many mutants of a text the rules killed."""

    score: Score
    stale: bool  # the text has changed since


@dataclass(frozen=True)
class Matrix:
    """Cells column by column, and what is needed to say which columns those are."""

    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    catalog_digest: str  # of the catalog that decided what is stale
    generated_us: int
    sabotage: tuple[Sabotaged, ...] = ()  # by kernel and kind; about no device

    def of_device(self, glob: str) -> Matrix:
        """The columns whose class, board or UUID matches; UsageError where none does."""
        columns = tuple(column for column in self.columns if matches(column, glob))
        if not columns:
            known = sorted({column.device_class for column in self.columns})
            raise UsageError(f"no device matches {glob!r}; there are {', '.join(known) or 'none'}")
        places = {(column.device_class, column.device, column.backend) for column in columns}
        kept = (cell for cell in self.cells if (cell.device_class, cell.device or "", cell.backend) in places)
        return replace(self, columns=columns, cells=tuple(kept))

    def at(self, places: Collection[tuple[str, str]]) -> Matrix:
        """The columns of these device classes and backends."""
        columns = tuple(column for column in self.columns if (column.device_class, column.backend) in places)
        cells = tuple(cell for cell in self.cells if (cell.device_class, cell.backend) in places)
        return replace(self, columns=columns, cells=cells)

    @property
    def kernels(self) -> frozenset[str]:
        """The kernels, op/name, that have a cell."""
        return frozenset(f"{cell.op}/{cell.kernel}" for cell in self.cells)

    def of_kernels(self, names: Collection[str]) -> Matrix:
        """The cells of these kernels, op/name, in all columns."""
        kept = tuple(cell for cell in self.cells if f"{cell.op}/{cell.kernel}" in names)
        return replace(self, cells=kept)

    def of_build(self, build: str) -> Matrix:
        return replace(self, cells=tuple(cell for cell in self.cells if cell.build == build))

    def by_class(self) -> Matrix:
        """One column per device class and backend: the worst of its boards that aren't suspect."""
        columns: dict[tuple[str, str], Column] = {}
        for column in self.columns:
            place = (column.device_class, column.backend)
            columns[place] = replace(column, device="", uuid="") if place in columns else column
        cells = _merged(self.cells, lambda cell: (cell.device_class, cell.backend, cell.row))
        return replace(self, columns=tuple(columns.values()), cells=cells)

    def across_builds(self) -> Matrix:
        """One cell for all builds of a row: the worst of those that ran, which its `build` names."""
        cells = _merged(
            self.cells, lambda cell: (cell.device_class, cell.device, cell.backend, *cell.row[:3])
        )
        return replace(self, cells=cells)


def pivot(
    capabilities: Iterable[Capability],
    claims: Sequence[Claim],
    devices: Iterable[Device],
    targets: Iterable[TargetGpu],
    catalog_digest: str,
    generated_us: int,
) -> Matrix:
    """Every listed claim in every column; the others, and evidence without a claim, only where they ran."""
    capabilities = tuple(capabilities)
    columns = tuple(_columns(capabilities, devices, targets))
    found: defaultdict[tuple[str, str, Row], list[Capability]] = defaultdict(list)
    for capability in capabilities:
        found[capability.key.device, capability.key.backend, row_of(capability)].append(capability)
    claimed = {claim.row for claim in claims}
    strays = sorted({row_of(capability) for capability in capabilities} - claimed)
    claims = [*claims, *(Claim(row, "", listed=False) for row in strays)]
    elsewhere = _Elsewhere(capabilities)
    cells = (
        _cell(column, claim, found[column.device, column.backend, claim.row], elsewhere)
        for column in columns
        for claim in claims
        if claim.listed or found[column.device, column.backend, claim.row]
    )
    return Matrix(columns, tuple(cells), catalog_digest, generated_us)


def row_of(capability: Capability) -> Row:
    key = capability.key
    return Row(key.op, key.kernel, key.kind, key.build)


def matches(column: Column, glob: str) -> bool:
    """Whether a glob, in any case of letters, fits the class, the board's slug or name, or its UUID."""
    words = (column.device_class, column.device, column.name, column.uuid)
    return any(word and fnmatchcase(word.lower(), glob.lower()) for word in words)


def merge(cells: Sequence[Cell]) -> Cell:
    """The worst of cells that differ in board or build only; one never run counts only among its like."""
    counted = counting(cells)
    worst = worst_of(counted)
    compared = [cell.bit_exact for cell in counted if cell.bit_exact is not None]
    return replace(
        worst,
        device=_only(cell.device for cell in counted),
        build="+".join(dict.fromkeys(cell.build for cell in counted)),
        flags=tuple(sorted({flag for cell in counted for flag in cell.flags})),
        rungs=tuple(rung for rung in RUNGS if all(rung in cell.rungs for cell in counted)),
        cases=sum(cell.cases for cell in counted),
        positions=sum(cell.positions for cell in counted),
        bound_ratio=_largest(cell.bound_ratio for cell in counted),
        relative_ratio=_largest(cell.relative_ratio for cell in counted),
        nmse=_largest(cell.nmse for cell in counted),
        bit_exact=all(compared) if compared else None,
        source_digest=_only(cell.source_digest for cell in counted) or worst.source_digest,
        last_run_us=max((cell.last_run_us for cell in counted if cell.last_run_us is not None), default=None),
    )


def counting(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Those that speak for all: not suspect if any isn't, and run if any was."""
    cells = [cell for cell in cells if "suspect" not in cell.flags] or cells
    return [cell for cell in cells if cell.verdict] or cells


def worst_of(cells: Sequence[Cell]) -> Cell:
    """The worst verdict's cell; of equal ones, the one that ran last."""
    return min(cells, key=lambda cell: (_severity(cell), -(cell.last_run_us or 0)))


class _Elsewhere:
    """What CPUs and the compiler showed about a source: rungs that a GPU row may wear without having run."""

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        self._by_source: defaultdict[tuple[Row, str], list[Capability]] = defaultdict(list)
        for capability in capabilities:
            if capability.verdict.about_kernel and capability.verdict is not Verdict.SKIP:
                self._by_source[row_of(capability), capability.key.source_digest].append(capability)

    def rungs(self, row: Row, source_digest: str, sm: str) -> set[str]:
        """Rungs that all the evidence about this source agrees on."""
        known = self._by_source[row, source_digest]
        on_cpu = [c for c in known if c.device_class.startswith("cpu-")]
        reached = {
            rung: [c for c in on_cpu if c.key.backend in backends] for rung, backends in CPU_RUNGS.items()
        }
        reached["builds"] = [built] if (built := self.built(row, source_digest, sm)) else []
        return {rung for rung, seen in reached.items() if seen and all(rung in c.rungs for c in seen)}

    def built(self, row: Row, source_digest: str, sm: str) -> Capability | None:
        """What the compiler made of this source for an architecture; None where nobody tried."""
        known = self._by_source[row, source_digest]
        return next((c for c in known if c.key.backend == "nvrtc" and c.key.device == sm), None)


def _columns(
    capabilities: Sequence[Capability], devices: Iterable[Device], targets: Iterable[TargetGpu]
) -> Iterable[Column]:
    devices = sorted(devices, key=lambda device: (device.device_class, device.slug))
    for device in devices:
        used = {capability.key.backend for capability in capabilities if capability.key.device == device.slug}
        for backend in sorted(used | {default_backend(device.device_class)}):
            sm = dict(device.fingerprint).get("sm", "")
            yield Column(device.device_class, device.slug, device.name, device.uuid, backend, sm)
    filled = {device.device_class for device in devices}
    for target in targets:
        if target.device_class not in filled:
            yield Column(target.device_class, "", target.name, "", "cuda", target.sm)


def default_backend(device_class: str) -> str:
    """What a device is there for: its cells exist before anything ran."""
    by_prefix = {"cpu-": "host", "sm_": "nvrtc"}
    return next((name for prefix, name in by_prefix.items() if device_class.startswith(prefix)), "cuda")


def _cell(column: Column, claim: Claim, found: Sequence[Capability], elsewhere: _Elsewhere) -> Cell:
    current = [c for c in found if c.key.source_digest == claim.source_digest]
    shown = max(current or found, key=lambda c: (c.last_run_us, c.key.source_digest), default=None)
    source_digest = shown.key.source_digest if shown else claim.source_digest
    rungs = set(shown.rungs) if shown else set()
    built = None
    if column.backend == "cuda":
        rungs |= elsewhere.rungs(claim.row, source_digest, column.sm)
        built = elsewhere.built(claim.row, claim.source_digest, column.sm)
    if claim.library:
        rungs -= OF_TEXTS
    place = (column.device_class, column.device or None, column.backend, *claim.row)
    ordered = tuple(rung for rung in RUNGS if rung in rungs)
    if shown is None:
        notes, refusal = (built.flags, _refusal(built)) if built else ((), "")
        none = (None, None, None, None)
        return Cell(*place, None, notes, ordered, 0, 0, *none, source_digest, None, refusal, claim.packing)
    same_code = not current and holds_for(shown, built)
    return Cell(
        *place,
        verdict=shown.verdict,
        flags=shown.flags if current or same_code else (*shown.flags, "stale"),
        rungs=ordered,
        cases=shown.cases,
        positions=shown.positions,
        bound_ratio=shown.bound_ratio,
        relative_ratio=shown.relative_ratio,
        nmse=shown.nmse,
        bit_exact=shown.bit_exact,
        source_digest=source_digest,
        last_run_us=shown.last_run_us,
        reason="; ".join(filter(None, (shown.reason, _same_code(column.sm, claim) if same_code else ""))),
        packing=claim.packing,
    )


def _refusal(built: Capability) -> str:
    """What the compiler says that will keep this from running; empty where it built."""
    return f"nvrtc, {built.key.device}: {built.reason}" if built.verdict is Verdict.REJECT else ""


def _same_code(sm: str, claim: Claim) -> str:
    """Why a verdict of an older source is no stale one."""
    return (
        f"the source is {claim.source_digest[:12]} since, and compiles to the same code for {sm}: "
        "flags, geometry, arguments and twin are unchanged, so nothing had to run again"
    )


def _merged(cells: Iterable[Cell], key: Callable[[Cell], object]) -> tuple[Cell, ...]:
    groups: defaultdict[object, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[key(cell)].append(cell)
    return tuple(merge(group) for group in groups.values())


def _severity(cell: Cell) -> int:
    return SEVERITY[cell.verdict] if cell.verdict else len(SEVERITY)


def _only(values: Iterable[str | None]) -> str | None:
    """The value that all share, else None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _largest(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)
