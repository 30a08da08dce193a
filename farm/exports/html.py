"""HTML: one file that needs no script and no other file, with the same table as the web's matrix."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from farm import footing
from farm.exports import Export
from farm.marks import FLAGS, LEGEND, LETTERS, NEVER_RUN, signs, tally
from farm.matrix import Cell, Column, Matrix
from farm.web import style
from farm.web.grid import COMPILED, RUNG_LETTERS, table

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# A cell that was cut is empty and stays blank; one that nobody ran has its mark written out.
PAPER = (
    "#matrix sup { font-weight: 400; } #matrix td { cursor: auto; } .wide { max-height: none; } "
    "#matrix td:empty::before { content: none; }"
)


def render(matrix: Matrix) -> str:
    """Device classes side by side, a row per kernel, kind and build."""
    by_class = matrix.by_class()
    notes = footing.footnotes(by_class.cells)
    body = table(matrix, lambda cell: _note(cell, notes))
    parts = [
        "<!doctype html>", '<html lang="en">', '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width">', "<title>Capability matrix</title>",
        f"<style>{_style()}</style>", "<main>", "<h1>Capability matrix</h1>",
        f"<p>{_text(tally(by_class.cells))}</p>", _left_out(matrix),
        f'<div class="wide" tabindex="0">{body}</div>',
        _refusals(notes), _legend(), _devices(matrix.columns),
        f"<p>{_text(footing.provenance(matrix, by_class.cells))}.</p>", "</main>", "</html>",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part) + "\n"


def _style() -> str:
    return f"{style.text()}{PAPER}"


def _text(text: str) -> str:
    return escape(" ".join(text.split()))


def _left_out(matrix: Matrix) -> str:
    note = footing.left_out(matrix)
    return f"<p>{_text(note)}.</p>" if note else ""


def _note(cell: Cell, notes: dict[str, int]) -> str:
    number = notes.get(footing.refusal(cell))
    never = NEVER_RUN + escape(signs(cell.flags)) if cell.verdict is None and not cell.rungs else ""
    return never + (f'<sup><a href="#n{number}">{number}</a></sup>' if number else "")


def _refusals(notes: dict[str, int]) -> str:
    items = "".join(f'<li id="n{number}">{_text(reason)}' for reason, number in notes.items())
    return f"<h2>Refusals</h2><ol>{items}</ol>" if notes else ""


def _legend() -> str:
    letters = {str(verdict): letter for verdict, letter in LETTERS.items()} | {NEVER_RUN: NEVER_RUN}
    rows = [(f"{letters[word]} {word}", means, who) for word, means, who in LEGEND]
    rows += [(f"{sign} {flag}", means, "") for flag, (sign, means) in FLAGS.items()]
    rungs = ", ".join(f"{letter} {rung}" for rung, letter in RUNG_LETTERS.items())
    rows.append(
        (f"{NEVER_RUN} in small letters", f"never run here; rungs known without the device: {rungs}", "")
    )
    rows.append(("", footing.BLANK.partition(": ")[2], ""))
    lines = "".join(f"<tr><td>{'<td>'.join(map(_text, row))}" for row in rows)
    shade = (
        "The darker a pass, the nearer its worst element came to its limit; underlined: the twin's own bits; "
        f"{COMPILED}: compiled for that architecture, nothing ran."
    )
    return f"<h2>Legend</h2><table><tbody>{lines}</table><p>{shade}</p>"


def _devices(columns: Sequence[Column]) -> str:
    items = "".join(f"<li>{_text(line)}" for line in footing.devices(columns))
    return f"<h2>Devices</h2><ul>{items or '<li>none'}</ul>"


EXPORT = Export("html", render)
