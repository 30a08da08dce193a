"""Cuts a matrix down to what an export asks for: rows, columns, how new, which rungs.

narrow(matrix, Words(rows="matvec/* kind:Q4_K", columns="rtx-*", since="30d", rungs=("exact",)))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from db.cell import RUNGS
from farm.matrix import Cell, Column, Matrix, matches
from farm.web.query import parse
from kernels.errors import FarmError, UnknownName, UsageError

AGE = re.compile(r"(\d{1,4})d")
MOST_NAMED = 12  # names that a complaint lists

Place = tuple[str, str | None, str]  # device class, device, backend


@dataclass(frozen=True)
class Words:
    """What the command line said; empty where it said nothing."""

    rows: str = ""  # globs over OP, OP/KERNEL, KIND or OP/KERNEL/KIND, and the filter words of the web
    columns: str = ""  # globs over class, board name and UUID, and the same filter words
    since: str = ""  # 30d or 2026-11-29
    rungs: tuple[str, ...] = ()  # all of which a cell must have


def narrow(matrix: Matrix, words: Words) -> Matrix:
    """The cells that are asked for; a row or column without any is gone.

    A row or column stays whole where one of its cells fits its words. UsageError for words that nothing
    answers to, FarmError where nothing is left.
    """
    if unknown := [rung for rung in words.rungs if rung not in RUNGS]:
        raise UnknownName("rung", unknown[0], list(RUNGS))
    columns = {(one.device_class, one.device or None, one.backend): one for one in matrix.columns}
    cells: Iterable[Cell] = matrix.cells
    if words.rows:
        cells = _kept(matrix, columns, words.rows, "rows", lambda cell: cell.row[:3], _is_row)
    if words.columns:
        kept = _kept(matrix, columns, words.columns, "columns", place_of, _is_column(columns))
        places = {place_of(cell) for cell in kept}
        cells = [cell for cell in cells if place_of(cell) in places]
    oldest_us = since_us(words.since, matrix.generated_us) if words.since else 0
    left = tuple(
        cell for cell in cells if (cell.last_run_us or 0) >= oldest_us and set(words.rungs) <= set(cell.rungs)
    )
    if not left:
        raise FarmError(f"no cell is left of {len(matrix.cells)}; leave out {_said(words)}")
    there = {place_of(cell) for cell in left}
    return replace(matrix, columns=tuple(columns[place] for place in columns if place in there), cells=left)


def since_us(text: str, now_us: int) -> int:
    """The start of `30d`, counted back from now, or of a day, `2026-11-29`, in microseconds."""
    if found := AGE.fullmatch(text):
        return now_us - int(timedelta(days=int(found[1])).total_seconds()) * 1_000_000
    try:
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 1_000_000
    except ValueError:
        raise UsageError(
            f"{text!r} is no age and no day; write 30d, 9999d at the most, or 2026-11-29"
        ) from None


def place_of(cell: Cell) -> Place:
    return cell.device_class, cell.device, cell.backend


def _said(words: Words) -> str:
    named = [f"--{name}" for name in ("rows", "columns", "since", "rungs") if getattr(words, name)]
    return " or ".join(named) or "--device and --build"


def _kept(
    matrix: Matrix,
    columns: dict[Place, Column],
    text: str,
    noun: str,
    group_of: Callable[[Cell], object],
    is_named: Callable[[Cell, str], bool],
) -> list[Cell]:
    """The cells of every row, or column, that one fitting cell belongs to."""
    globs = [word.lower() for word in text.split() if ":" not in word]
    query = parse(" ".join(word for word in text.split() if ":" in word))
    fit = [
        cell
        for cell in matrix.cells
        if (not globs or any(is_named(cell, glob) for glob in globs))
        and query.fits(cell, columns[place_of(cell)], matrix.generated_us)
    ]
    if not fit:
        raise UsageError(f"no {noun} fit {text!r}; there are {_some(_names(matrix, noun))}")
    groups = {group_of(cell) for cell in fit}
    return [cell for cell in matrix.cells if group_of(cell) in groups]


def _is_row(cell: Cell, glob: str) -> bool:
    kernel = f"{cell.op}/{cell.kernel}"
    return any(
        fnmatchcase(name.lower(), glob) for name in (cell.op, kernel, cell.kind, f"{kernel}/{cell.kind}")
    )


def _is_column(columns: dict[Place, Column]) -> Callable[[Cell, str], bool]:
    return lambda cell, glob: matches(columns[place_of(cell)], glob)


def _names(matrix: Matrix, noun: str) -> Collection[str]:
    if noun == "columns":
        return sorted({column.device_class for column in matrix.columns})
    return sorted({f"{cell.op}/{cell.kernel}" for cell in matrix.cells})


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:MOST_NAMED])
    return f"{shown}, … {len(names)} in all" if len(names) > MOST_NAMED else shown or "none"
