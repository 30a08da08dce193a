"""Leaves out of a matrix what isn't trusted as far as a reader asks: such a cell is no PASS, and says why.

trusted(matrix, "own") -> Matrix       # a level of db.agreement.LEVELS; cells below it have no verdict
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from db.agreement import LEVELS
from farm.matrix import Cell, LeftOut, Matrix
from kernels.errors import UnknownName

FLAG = "untrusted"


def trusted(matrix: Matrix, least: str) -> Matrix:
    """The matrix with the verdicts of that level and above; UnknownName names the levels."""
    if least not in LEVELS:
        raise UnknownName("level of trust", least, list(LEVELS))
    out = [cell for cell in matrix.cells if is_below(cell, least)]
    counts = Counter((cell.trust, str(cell.verdict)) for cell in out)
    ordered = sorted(counts.items(), key=lambda item: (LEVELS.index(item[0][0]), item[0][1]))
    cells = tuple(_blanked(cell, least) if is_below(cell, least) else cell for cell in matrix.cells)
    left_out = tuple(LeftOut(trust, verdict, count) for (trust, verdict), count in ordered)
    return replace(matrix, cells=cells, min_trust=least, left_out=left_out)


def is_below(cell: Cell, least: str) -> bool:
    """Whether a cell ran, and what it rests on isn't worth that much."""
    return cell.verdict is not None and LEVELS.index(cell.trust) < LEVELS.index(least)


def _blanked(cell: Cell, least: str) -> Cell:
    """A cell as one that nobody ran, but for a flag and the reason."""
    return replace(
        cell,
        verdict=None,
        flags=(FLAG,),
        rungs=(),
        cases=0,
        positions=0,
        bound_ratio=None,
        relative_ratio=None,
        nmse=None,
        bit_exact=None,
        last_run_us=None,
        reason=f"its evidence is {cell.trust}, {least} is asked for",
    )
