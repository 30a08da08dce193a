"""What stands under every table, whatever its format: refusals, the marks used, devices, date and catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from farm.marks import FLAGS, LEGEND, NEVER_RUN, timestamp
from farm.matrix import Cell, Column, Matrix
from kernels.evidence import Verdict

REFUSED = (Verdict.SKIP, Verdict.REJECT)
BLANK = "blank: not part of this table"


def refusal(cell: Cell) -> str:
    """Why a cell was refused, or will be where nobody ran it; empty for every other cell."""
    return cell.reason if cell.verdict is None or cell.verdict in REFUSED else ""


def footnotes(cells: Iterable[Cell]) -> dict[str, int]:
    """The number of each refusal, in the order in which cells show them."""
    reasons = dict.fromkeys(reason for cell in cells if (reason := refusal(cell)))
    return {reason: number for number, reason in enumerate(reasons, 1)}


def legend(cells: Iterable[Cell], blank: bool = False) -> list[str]:
    """`PASS: inside its rule at every element`, for the marks and flags that these cells show."""
    cells = tuple(cells)
    used = {cell.verdict or NEVER_RUN for cell in cells}
    flags = {flag for cell in cells for flag in cell.flags}
    lines = [f"{word}: {means}" for word, means, _ in LEGEND if word in used]
    lines += [f"({flag}): {means}" for flag, (_, means) in FLAGS.items() if flag in flags]
    return lines + [BLANK] * blank


def devices(columns: Sequence[Column]) -> list[str]:
    """`rtx-3060: NVIDIA RTX 3060 (rtx-3060-cccc)`; a target that no board fills says so."""
    lines = dict.fromkeys(map(_device, columns))
    return list(lines)


def _device(column: Column) -> str:
    board = f" ({column.device})" if column.device else f" ({column.sm}, no board yet)"
    return f"{column.device_class}: {column.name}{board}"


def provenance(matrix: Matrix, cells: Iterable[Cell]) -> str:
    """When these cells ran, when they were written down, and against which catalog."""
    return f"{_when(cells)}; written {timestamp(matrix.generated_us)} against catalog {matrix.catalog_digest}"


def left_out(matrix: Matrix) -> str:
    """`3 cells are less trusted than own: 2 rented PASS, 1 suspect FAIL`; empty where none was left out."""
    if not matrix.left_out:
        return ""
    parts = [f"{one.cells:,} {one.trust} {one.verdict}" for one in matrix.left_out]
    count = sum(one.cells for one in matrix.left_out)
    noun = "cells are" if count > 1 else "cell is"
    return f"{count:,} {noun} less trusted than {matrix.min_trust} and left out: {', '.join(parts)}"


def evidence(cells: Iterable[Cell]) -> str:
    """When these cells ran, and one digest of the sources that did: the same until something runs again."""
    cells = tuple(cell for cell in cells if cell.verdict is not None)
    sources = sorted({"/".join(cell.row) + " " + cell.source_digest for cell in cells})
    return f"{_when(cells)}; sources {hashlib.sha256(chr(10).join(sources).encode()).hexdigest()[:12]}"


def _when(cells: Iterable[Cell]) -> str:
    ran = sorted(cell.last_run_us for cell in cells if cell.last_run_us is not None)
    return f"Ran {timestamp(ran[0])} to {timestamp(ran[-1])}" if ran else "Nothing here ran"
