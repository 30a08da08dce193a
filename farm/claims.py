"""What a document claims in its marked regions, held against the matrix: nothing may say more than was run.

written(text, matrix) -> text            # every region as the evidence has it
check(text, matrix, age) -> tuple[Finding, …]     # empty where the document claims nothing else
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from db.cell import RUNGS, CellKey
from farm.cell_name import find_cells
from farm.exports.md import escaped, grid
from farm.marked import Region, exchanged, regions
from farm.marks import mark, timestamp
from farm.matrix import Cell, Matrix, counting, merge
from farm.narrow import Words, narrow
from kernels.errors import FarmError, UnknownName, UsageError
from kernels.evidence import Verdict
from kernels.model import Build

DOUBTED = ("stale", "suspect")
MOST_CELLS = 3  # that a finding names
MOST_SHOWN = 160  # characters of a line that a finding quotes
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Age:
    """How old what a document rests on may be."""

    most_us: int
    oldest_us: Mapping[CellKey, int]  # by cell that ran: the end of the oldest line that counts


@dataclass(frozen=True)
class Finding:
    """A claim that the evidence doesn't carry."""

    line: int  # of the region's mark
    claim: str
    missing: str  # what the evidence says instead, or lacks


def written(text: str, matrix: Matrix) -> str:
    """The document with every region filled; UsageError with the line where one can't be."""
    return exchanged(text, lambda region: body(region, matrix))


def check(text: str, matrix: Matrix, age: Age | None = None) -> tuple[Finding, ...]:
    """Everything that the regions claim and the evidence doesn't, region by region."""
    return tuple(finding for region in regions(text) for finding in _findings(region, matrix, age))


def body(region: Region, matrix: Matrix) -> str:
    """A region's text as the evidence has it now."""
    cells = _cells(region, matrix)
    if region.word == "cell":
        return fact(merge(cells))
    left = replace(matrix, cells=tuple(cells))
    places = {(cell.device_class, cell.device or "", cell.backend) for cell in cells}
    boards = [one for one in matrix.columns if (one.device_class, one.device, one.backend) in places]
    by_class = replace(left, columns=tuple(boards)).by_class()
    backends = dict.fromkeys(column.backend for column in by_class.columns)
    tables = [f"**{escaped(backend)}**\n\n{grid(by_class, backend, boards, False)}" for backend in backends]
    return "\n\n" + "\n\n".join(tables) + "\n\n"


def fact(cell: Cell) -> str:
    """`PASS, 21 cases, rungs twin host exact, 2026-11-30`, or that nobody ran it."""
    if cell.verdict is None:
        return "never run"
    when = timestamp(cell.last_run_us or 0)[:10]
    rungs = " ".join(cell.rungs) or "none"
    return f"{escaped(mark(cell))}, {cell.cases} cases, rungs {rungs}, {when}"


def _cells(region: Region, matrix: Matrix) -> Sequence[Cell]:
    """What a region is about; UsageError with its line where there is no such thing."""
    try:
        if unknown := [rung for rung in region.claims if rung not in RUNGS]:
            raise UnknownName("rung", unknown[0], list(RUNGS))
        return find_cells(matrix, region.name) if region.word == "cell" else _selected(region, matrix).cells
    except FarmError as error:
        raise UsageError(f"{region.line}: {error}") from None


def _selected(region: Region, matrix: Matrix) -> Matrix:
    option = region.option
    left = matrix.of_device(option("device")) if option("device") else matrix
    if build := option("build"):
        if build not in list(Build):
            raise UnknownName("build", build, [known.value for known in Build])
        left = left.of_build(build)
    columns = f"{option('columns')} backend:{option('backend')}" if option("backend") else option("columns")
    rungs = tuple(filter(None, option("rungs").split(",")))
    return narrow(left, Words(option("rows"), columns, option("since"), rungs))


def _findings(region: Region, matrix: Matrix, age: Age | None) -> Iterator[Finding]:
    cells = [cell for cell in counting(_cells(region, matrix)) if cell.verdict is not None]
    what = region.name or "a matrix"
    if (now := body(region, matrix)) != region.text:
        claim, missing = _difference(region.text, now)
        yield Finding(region.line, f"{what} says {claim}", f"the evidence says {missing}")
    for flag in DOUBTED:
        if marked := [cell for cell in cells if flag in cell.flags]:
            yield Finding(region.line, f"{what} shows {_some(marked)}", f"{flag}: {_REMEDY[flag]}")
    for rung in region.claims:
        if lacking := [cell for cell in _claimed(region, matrix) if rung not in cell.rungs]:
            yield Finding(region.line, f"{what} claims {rung} of {_some(lacking)}", f"no rung {rung}")
    if age:
        ended_us = {cell: age.oldest_us.get(_key(cell), 0) for cell in cells}
        if old := [cell for cell in cells if ended_us[cell] < matrix.generated_us - age.most_us]:
            when = timestamp(min(ended_us[cell] for cell in old))[:10]
            yield Finding(region.line, f"{what} shows {_some(old)}", f"a case last ran {when}: run it again")


def _key(cell: Cell) -> CellKey:
    return CellKey(cell.device or "", cell.backend, *cell.row, cell.source_digest)


_REMEDY = {
    "stale": "the source has changed since it ran; run it again",
    "suspect": "its board is set aside; run it on another",
}


def _claimed(region: Region, matrix: Matrix) -> list[Cell]:
    """The cells that the claimed rungs are said of: a matrix' passes, a cell whatever came of it."""
    cells = _cells(region, matrix)
    if region.word == "cell":
        return [merge(cells)]
    return [cell for cell in cells if cell.verdict is Verdict.PASS]


def _difference(old: str, new: str) -> tuple[str, str]:
    """The first lines in which two texts differ."""
    lines = list(unified_diff(old.strip().split("\n"), new.strip().split("\n"), lineterm="", n=0))[2:]
    gone = [line[1:] for line in lines if line.startswith("-")]
    come = [line[1:] for line in lines if line.startswith("+")]
    return _quoted(gone), _quoted(come)


def _quoted(lines: Sequence[str]) -> str:
    lines = [line for line in lines if line.strip()]
    if not lines:
        return "nothing"
    more = f", and {len(lines) - 1} lines more" if len(lines) > 1 else ""
    return f"{lines[0][:MOST_SHOWN]!r}{more}"


def _some(cells: Sequence[Cell]) -> str:
    named = ", ".join(f"{cell.name} {cell.verdict or 'never run'}" for cell in cells[:MOST_CELLS])
    return f"{named} and {len(cells) - MOST_CELLS} more" if len(cells) > MOST_CELLS else named
