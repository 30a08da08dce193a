"""The matrix as an HTML table, in as few bytes as a table of many thousand cells can have.

A cell's address is made by the page's script from its row's and its column's: `data-at` and `data-of`. How it
looks is an attribute of one letter, since `class=` would make the page half as long again; a cell without one
is a PASS far from its limit that equals the twin bit for bit, or, empty, one that was never run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from itertools import groupby

from db.cell import RUNGS
from farm.marks import LETTERS, signs
from farm.matrix import Cell, Column, Matrix, counting, merge, severity
from kernels import registry
from kernels.evidence import Verdict
from kernels.model import Build

LOOKS = {verdict: letter.lower() for verdict, letter in LETTERS.items()}
SHADES = 4  # of a margin: 1 is far from the limit
EXACT = ("", "i", "j", "k")  # attributes of a PASS with the rung exact, by shade
INEXACT = ("u", "v", "w", "x")  # of one without
STALE, STALE_BAD = "z", "y"
BUILT, COMPILED = "b", "B"  # attribute and letter of a PASS that ran nothing
RUNG_LETTERS = {"twin": "t", "host": "h", "builds": "b", "device": "d", "exact": "e", "timed": "m"}
IN_A_CELL = ("stale", "flaky", "suspect")  # flags that change what a verdict is worth
COMPILES_ONLY = "nvrtc"
BUILDS = {build.value: place for place, build in enumerate(Build)}
SECTIONS = ("boards", "compiled only: nothing ran", "GPUs that no board fills yet")

Note = Callable[[Cell], str]
Key = tuple[str, str, str, str]  # op, kernel, kind, and the build, or nothing where builds are together


def table(matrix: Matrix, note: Note | None = None, apart: bool = True) -> str:
    """A group of rows for each kernel, a row for each kind, a column for each device class and backend.

    Builds have rows of their own if `apart`, else a cell shows the worst of those that ran. `note` is HTML
    that follows a cell's own. Everything from rows is escaped.
    """
    columns = sorted(_classes(matrix.columns), key=_section)
    rows = _rows(matrix.cells, columns, note, apart)
    ran = {(cell.op, cell.kernel) for cell in matrix.cells if cell.verdict}
    several = len({key[3] for key in rows}) > 1
    body = []
    for kernel, keys in groupby(_ordered(rows, ran), key=lambda key: key[:2]):
        body.append(
            f"<tbody><tr class=g><th colspan={len(columns) + 1}><span>{escape('/'.join(kernel))}</span>"
        )
        body += (f"<tr>{_head(key, several)}{''.join(rows[key])}" for key in keys)
    return f"<table id=matrix class=m>{_heads(columns)}{''.join(body)}</table>"


def _classes(columns: Iterable[Column]) -> list[Column]:
    """One column for the boards of a class."""
    found: dict[tuple[str, str], Column] = {}
    for column in columns:
        found.setdefault((column.device_class, column.backend), column)
    return list(found.values())


def _rows(
    cells: Iterable[Cell], columns: Sequence[Column], note: Note | None, apart: bool
) -> dict[Key, list[str]]:
    """Key to the HTML of its cells, in the order in which the matrix has them."""
    at = {(one.device_class, one.backend): place for place, one in enumerate(columns)}
    found: dict[Key, list[list[Cell] | None]] = {}
    for cell in cells:
        key = cell.op, cell.kernel, cell.kind, cell.build if apart else ""
        row = found.get(key)
        if row is None:
            row = found[key] = [None] * len(columns)
        place = at[cell.device_class, cell.backend]
        same = row[place]
        if same is None:
            row[place] = [cell]
        else:
            same.append(cell)
    if note is None:
        return {key: [one_cell(same) if same else "<td>" for same in row] for key, row in found.items()}
    return {
        key: [one_cell(same) + note(merge(same)) if same else "<td>" for same in row]
        for key, row in found.items()
    }


def _ordered(keys: Iterable[Key], ran: Collection[tuple[str, str]]) -> list[Key]:
    """Kernels that ran somewhere come first, else all is in the catalog's order: kernels, kinds, builds."""
    keys = list(keys)
    kernels = {name: place for place, name in enumerate(dict.fromkeys(key[:2] for key in keys))}
    kinds = {name: place for place, name in enumerate(registry.kinds())}
    return sorted(keys, key=lambda key: (
        key[:2] not in ran, kernels[key[:2]], kinds.get(key[2], len(kinds)), key[2], BUILDS.get(key[3], 0)
    ))  # fmt: skip


def one_cell(cells: Sequence[Cell]) -> str:
    """The worst of some cells: its attribute says verdict, staleness and shade, its text the verdict."""
    shown = cells[0]
    if len(cells) > 1:
        cells = counting(cells)
        shown = min(cells, key=severity)
    if shown.verdict is None:
        rungs = {rung for cell in cells for rung in cell.rungs}
        if not rungs:
            return "<td>"
        letters = "".join(RUNG_LETTERS[rung] for rung in RUNGS if rung in rungs)
        return f"<td n>{letters}"
    flags = {flag for cell in cells for flag in cell.flags} & {*IN_A_CELL}
    letter = LETTERS[shown.verdict]
    if "stale" in flags:
        name = STALE_BAD if shown.verdict.bad else STALE
    elif shown.verdict is not Verdict.PASS:
        name = LOOKS[shown.verdict]
    elif shown.backend == COMPILES_ONLY:
        name, letter = BUILT, COMPILED
    else:
        shades = EXACT if any("exact" in cell.rungs for cell in cells) else INEXACT
        name = shades[max(shade(cell.bound_ratio) for cell in cells) - 1]
    signed = signs(flag for flag in IN_A_CELL if flag in flags) if flags else ""
    return f"<td {name}>{letter}{signed}" if name else f"<td>{letter}{signed}"


def shade(margin: float | None) -> int:
    """1 to SHADES: in which quarter of the way to the limit the worst element is."""
    return min(SHADES, max(1, int((margin or 0.0) * SHADES) + 1))


def _head(key: Key, with_build: bool) -> str:
    at = escape("/".join(filter(None, key)), quote=True)
    build = f" <i>{escape(key[3])}</i>" if with_build else ""
    return f'<th data-at="{at}">{escape(key[2])}{build}'


def _section(column: Column) -> int:
    return 1 if column.backend == COMPILES_ONLY else 2 if column.is_target else 0


def _heads(columns: Sequence[Column]) -> str:
    """Two lines: what sort of columns these are, then their classes, written upwards."""
    sections = [(number, len(list(same))) for number, same in groupby(map(_section, columns))]
    above = "".join(f"<th colspan={count}><span>{SECTIONS[number]}</span>" for number, count in sections)
    corner = "<th>kernel, and its kinds"
    return f"<thead><tr class=s><th>{above}<tr>{corner}{''.join(map(_column_head, columns))}"


def _column_head(one: Column) -> str:
    place = escape(f"{one.device_class}/{one.backend}", quote=True)
    words = f"<span>{escape(one.device_class)} <i>{escape(one.backend)}</i></span>"
    return f'<th data-of="{place}" title="{escape(one.name, quote=True)}">{words}'
