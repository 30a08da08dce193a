"""What boards ran and how fast, a line each: board, driver, day, verdict, bits, bytes a second.

measured(matrix) -> list[str]
# NVIDIA RTX 3060 (rtx-3060-cccc), driver 575.57.08, 2026-12-01: matvec/wide Q4_K default 4096x4096:
#     PASS, exact, 312 GB/s
"""

from __future__ import annotations

from collections.abc import Iterator

from db.benchmark import ON_BOARDS, Timed
from farm.marks import mark, timestamp
from farm.matrix import Cell, Matrix
from kernels.model import Build

Place = tuple[str, str, str, str, str, str]  # board, backend, op, kernel, kind, build


def measured(matrix: Matrix) -> list[str]:
    """The valid benchmarks of boards that cells show, of the source that the cell rests on."""
    cells = {_place(cell): cell for cell in matrix.cells if cell.verdict and cell.backend in ON_BOARDS}
    names = {column.device: column.name for column in matrix.columns}
    return [_line(one, cells, names[one.key.device]) for one in matrix.times if _counts(one, cells)]


def _place(cell: Cell) -> Place:
    return cell.device or "", cell.backend, *cell.row


def _counts(one: Timed, cells: dict[Place, Cell]) -> bool:
    cell = cells.get(one.key[:6])
    return cell is not None and cell.source_digest == one.key.source_digest and not one.benchmark.refused


def _line(one: Timed, cells: dict[Place, Cell], name: str) -> str:
    key = one.key
    driver = f", driver {one.driver}" if one.driver else ""
    what = f"{key.op}/{key.kernel} {key.kind} {key.build} {one.shape}"
    said = ", ".join(_said(one, cells))
    return f"{name} ({key.device}){driver}, {timestamp(one.finished_us)[:10]}: {what}: {said}"


def _said(one: Timed, cells: dict[Place, Cell]) -> Iterator[str]:
    """The cell's verdict, whether the kernel's bits in the build exact are the twin's, and the pace."""
    yield mark(cells[one.key[:6]])
    exact = cells.get((*one.key[:5], Build.EXACT.value))
    if exact is not None and "exact" in exact.rungs and "stale" not in exact.flags:
        yield "exact"
    yield f"{one.benchmark.gb_per_s:,.3g} GB/s"
