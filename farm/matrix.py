"""The capability matrix: every kernel, kind and build on every device, with a verdict where something ran.

matrix = pivot(capabilities, claims, devices, target_gpus(), catalog_digest, now_us)     # farm/pivot.py
matrix.of_device("cpu-*").of_build("exact").by_class().across_builds()    # each gives another Matrix
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from db.agreement import LEVELS
from db.benchmark import Timed
from db.cell import RUNGS, SEVERITY
from db.sabotage import Score
from kernels.errors import UsageError
from kernels.evidence import Verdict


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
    is_target: bool = False  # a GPU that no board fills

    @property
    def place(self) -> tuple[str, str | None]:
        """As cells name it."""
        return self.device_class, self.device or None


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
    trust: str = ""  # of db.agreement.LEVELS; empty where nothing ran

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
class LeftOut:
    """Cells whose verdict isn't shown, since what they rest on isn't trusted as far as was asked."""

    trust: str
    verdict: str
    cells: int


@dataclass(frozen=True)
class Matrix:
    """Cells column by column, and what is needed to say which columns those are."""

    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    catalog_digest: str  # of the catalog that decided what is stale
    generated_us: int
    sabotage: tuple[Sabotaged, ...] = ()  # by kernel and kind; about no device
    min_trust: str = ""  # what was asked for; empty: nothing
    left_out: tuple[LeftOut, ...] = ()  # the least trusted first
    times: tuple[Timed, ...] = ()  # the newest benchmark of every case, board and source

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


def matches(column: Column, glob: str) -> bool:
    """Whether a glob, in any case of letters, fits the class, the board's slug or name, or its UUID."""
    words = (column.device_class, column.device, column.name, column.uuid)
    return any(word and fnmatchcase(word.lower(), glob.lower()) for word in words)


def merge(cells: Sequence[Cell]) -> Cell:
    """The worst of cells that differ in board or build only; one never run counts only among its like."""
    if len(cells) == 1 and not (cells[0].flags or cells[0].rungs):
        return cells[0]
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
        trust=least_of(cell.trust for cell in counted),
    )


def counting(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Those that speak for all: not suspect if any isn't, and run if any was."""
    cells = [cell for cell in cells if "suspect" not in cell.flags] or cells
    return [cell for cell in cells if cell.verdict] or cells


def worst_of(cells: Sequence[Cell]) -> Cell:
    """The worst verdict's cell; of equal ones, the one that ran last."""
    return min(cells, key=lambda cell: (severity(cell), -(cell.last_run_us or 0)))


def least_of(levels: Iterable[str]) -> str:
    """The least of these levels of trust; empty where nothing ran."""
    return min(filter(None, levels), key=LEVELS.index, default="")


def _merged(cells: Iterable[Cell], key: Callable[[Cell], object]) -> tuple[Cell, ...]:
    groups: defaultdict[object, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[key(cell)].append(cell)
    return tuple(merge(group) for group in groups.values())


def severity(cell: Cell) -> int:
    """Worst first; what nobody ran comes last."""
    return SEVERITY[cell.verdict] if cell.verdict else len(SEVERITY)


def _only(values: Iterable[str | None]) -> str | None:
    """The value that all share, else None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _largest(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)
