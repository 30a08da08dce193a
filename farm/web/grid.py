"""The matrix as an HTML table, in as few bytes as a table of many thousand cells can have.

A cell's address is made by the page's script from its row's and its column's: `data-at` and `data-of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from farm.marks import signs
from farm.matrix import Cell, Column, Matrix, Row
from kernels.model import Verdict

# One letter a verdict, for classes and marks: never by colour alone.
LETTERS = {
    Verdict.PASS: "P", Verdict.FAIL: "F", Verdict.CRASH: "C", Verdict.TIMEOUT: "T",
    Verdict.REJECT: "R", Verdict.ERROR: "E", Verdict.LOST: "L", Verdict.SKIP: "S",
}  # fmt: skip
CLASSES = {verdict: letter.lower() for verdict, letter in LETTERS.items()}
SHADES = 4  # of a margin: 1 is far from the limit
RUNG_LETTERS = {"twin": "t", "host": "h", "builds": "b", "device": "d", "exact": "e", "timed": "m"}


def table(matrix: Matrix, note: Callable[[Cell], str] = lambda cell: "") -> str:
    """Rows by op, kernel, kind and build, a column per device class and backend; everything escaped.

    `note` is HTML that follows a cell's own.
    """
    columns = {(one.device_class, one.backend): place for place, one in enumerate(matrix.columns)}
    rows: dict[Row, list[str]] = {}
    for cell in matrix.cells:
        line = rows.setdefault(cell.row, ["<td>"] * len(columns))
        line[columns[cell.device_class, cell.backend]] = one_cell(cell) + note(cell)
    body = "".join(f"<tr>{_head(row)}{''.join(line)}" for row, line in sorted(rows.items()))
    head = f"<tr><th>kernel<th>kind<th>build{_heads(matrix.columns)}"
    return f"<table id=matrix><thead>{head}<tbody>{body}</table>"


def one_cell(cell: Cell) -> str:
    """A cell: its class says verdict, staleness and shade, its text the same in letters."""
    if cell.verdict is None:
        letters = "".join(RUNG_LETTERS[rung] for rung in cell.rungs)
        return f"<td class=n>{letters}" if letters else "<td>"
    classes = CLASSES[cell.verdict]
    if "stale" in cell.flags:
        classes += " z"
    elif cell.verdict is Verdict.PASS:
        classes += f" m{shade(cell.bound_ratio)}" * (shade(cell.bound_ratio) > 1)
        classes += " x" * ("exact" in cell.rungs)
    quoted = f'"{classes}"' if " " in classes else classes
    return f"<td class={quoted}>{LETTERS[cell.verdict]}{escape(signs(cell.flags))}"


def shade(margin: float | None) -> int:
    """1 to SHADES: in which quarter of the way to the limit the worst element is."""
    return min(SHADES, max(1, int((margin or 0.0) * SHADES) + 1))


def _head(row: Row) -> str:
    kernel = f"{row.op}/{row.kernel}"
    at = escape("/".join(row), quote=True)
    return f'<th data-at="{at}">{escape(kernel)}<th>{escape(row.kind)}<th>{escape(row.build)}'


def _heads(columns: Iterable[Column]) -> str:
    return "".join(map(_column_head, columns))


def _column_head(one: Column) -> str:
    place = escape(f"{one.device_class}/{one.backend}", quote=True)
    words = f"<span>{escape(one.device_class)}</span> {escape(one.backend)}"
    return f'<th data-of="{place}" title="{escape(one.name, quote=True)}">{words}'
