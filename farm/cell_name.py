"""Finds cells by the name that people type: DEVICE/BACKEND/OP/KERNEL/KIND[/BUILD]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from farm.matrix import Cell, Matrix
from kernels.errors import UnknownName, UsageError

GRAMMAR = "DEVICE/BACKEND/OP/KERNEL/KIND[/BUILD]"
EXAMPLE = "cpu-x86_64/host/matvec/block/Q4_0/exact"

# What each part after DEVICE is called, and where a cell has it.
PARTS: tuple[tuple[str, Callable[[Cell], str]], ...] = (
    ("backend", lambda cell: cell.backend),
    ("op", lambda cell: cell.op),
    ("kernel", lambda cell: cell.kernel),
    ("kind", lambda cell: cell.kind),
    ("build", lambda cell: cell.build),
)


def find_cells(matrix: Matrix, text: str) -> tuple[Cell, ...]:
    """The cells of that name, one per board and build; UsageError names what there is for a wrong part.

    DEVICE is a board's slug, a class or an sm; a kind may be written in any case.
    """
    parts = text.split("/")
    if not 5 <= len(parts) <= 6 or not all(parts):
        raise UsageError(f"cell {text!r} is not written {GRAMMAR}, for example {EXAMPLE}")
    left = _of_device(matrix, parts[0])
    for (noun, part_of), wanted in zip(PARTS, parts[1:], strict=False):
        left = _narrowed(left, noun, part_of, wanted)
    return left


def _of_device(matrix: Matrix, wanted: str) -> tuple[Cell, ...]:
    places = {
        (column.device_class, column.device or None)
        for column in matrix.columns
        if wanted.lower() in (column.device.lower(), column.device_class.lower(), column.sm)
    }
    found = tuple(cell for cell in matrix.cells if (cell.device_class, cell.device) in places)
    if not found:
        raise UnknownName("device", wanted, sorted({column.device_class for column in matrix.columns}))
    return found


def _narrowed(
    cells: Sequence[Cell], noun: str, part_of: Callable[[Cell], str], wanted: str
) -> tuple[Cell, ...]:
    found = tuple(cell for cell in cells if part_of(cell).lower() == wanted.lower())
    if not found:
        raise UnknownName(noun, wanted, list(dict.fromkeys(part_of(cell) for cell in cells)))
    return found
