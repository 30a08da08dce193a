"""SVG: the matrix as a heat map for a page or a slide; letters and hatching say what its colours say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from farm import footing
from farm.exports import Export
from farm.marks import FLAGS, LEGEND, LETTERS, NEVER_RUN, signs
from farm.matrix import Cell, Matrix
from farm.web.grid import shade
from kernels.evidence import Verdict

WIDE, HIGH = 30, 16  # pixels of a cell
LINE, LETTER = 14, 6.7  # pixels of a line and of a letter at 11 px
EDGE = 8
GREENS = ("#cfe8d6", "#aad6b8", "#86c49b", "#5fae7a")  # by quarter of the way to the limit
FILLS = {Verdict.SKIP: "#e6e2d2", Verdict.ERROR: "#5a4a00", Verdict.LOST: "#5a4a00"}
BAD, NOTHING = "#8f1d14", "#ffffff"
HATCH = (
    '<pattern id="stale" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#eeeeee"/><rect width="2" height="6" fill="#bbbbbb"/></pattern>'
)

Name = tuple[str, str, str]  # op, kernel, kind
Place = tuple[str, str]  # device class, backend


def render(matrix: Matrix) -> str:
    """A square per kernel, kind and class: the worst of its boards and of the builds that ran."""
    by_class = matrix.by_class().across_builds()
    cells, notes = by_class.cells, footing.footnotes(by_class.cells)
    columns = [(one.device_class, one.backend) for one in by_class.columns]
    names = sorted({cell.row[:3] for cell in cells})
    foot = _foot(matrix, cells, notes)
    left = EDGE + _width(f"{op}/{kernel} {kind}" for op, kernel, kind in names)
    top = EDGE + _width(" ".join(place) for place in columns)
    xs = {place: left + WIDE * number for number, place in enumerate(columns)}
    ys = {name: top + HIGH * number for number, name in enumerate(names)}
    below = top + HIGH * len(names) + LINE
    width = max(left + WIDE * len(columns), EDGE + _width(foot)) + EDGE
    return _drawing(width, below + LINE * len(foot) + EDGE, [
        *_heads(xs, ys, top),
        *(_square(cell, xs[cell.device_class, cell.backend], ys[cell.row[:3]], notes) for cell in cells),
        *(_text(EDGE, below + LINE * (number + 1), line) for number, line in enumerate(foot)),
    ])  # fmt: skip


def _drawing(width: int, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="11" role="img">'
    )
    paper = f'<rect width="{width}" height="{height}" fill="{NOTHING}"/>'
    title = "<title>Capability matrix</title>"
    return "\n".join([head, title, f"<defs>{HATCH}</defs>", paper, *parts, "</svg>"]) + "\n"


def _width(lines: Iterable[str]) -> int:
    return int(max((len(_plain(line)) for line in lines), default=0) * LETTER) + EDGE


def _plain(text: str) -> str:
    """On one line, without the control characters that no XML may have."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(_plain(text))}</text>'


def _heads(xs: Mapping[Place, int], ys: Mapping[Name, int], top: int) -> Iterator[str]:
    for place, x in xs.items():
        middle = x + WIDE / 2 + 4
        yield _text(middle, top - 4, " ".join(place), f' transform="rotate(-90 {middle:g} {top - 4})"')
    for (op, kernel, kind), y in ys.items():
        yield _text(EDGE, y + HIGH - 4, f"{op}/{kernel} {kind}")


def _square(cell: Cell, x: int, y: int, notes: dict[str, int]) -> str:
    number = notes.get(footing.refusal(cell))
    letters = (LETTERS[cell.verdict] if cell.verdict else NEVER_RUN) + signs(cell.flags)
    letters += str(number) if number else ""
    fill = _fill(cell)
    ink = "#ffffff" if fill in (BAD, FILLS[Verdict.ERROR]) else "#111111"
    tip = f"{cell.name}: {cell.verdict or 'never run'}"
    rect = f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="{fill}" stroke="#d0d4da"/>'
    middle = f' fill="{ink}" text-anchor="middle"'
    text = _text(x + WIDE / 2, y + HIGH - 4, letters, middle)
    return f"<g><title>{escape(_plain(tip))}</title>{rect}{text}</g>"


def _fill(cell: Cell) -> str:
    if cell.verdict is None:
        return NOTHING
    if "stale" in cell.flags:
        return "url(#stale)"
    if cell.verdict is Verdict.PASS:
        return GREENS[shade(cell.bound_ratio) - 1]
    return FILLS.get(cell.verdict, BAD)


def _foot(matrix: Matrix, cells: Sequence[Cell], notes: dict[str, int]) -> list[str]:
    """Refusals, the legend in letters, devices, date and catalog."""
    letters = {str(verdict): letter for verdict, letter in LETTERS.items()} | {NEVER_RUN: NEVER_RUN}
    flags = [f"{sign} after a letter: {flag}, {means}" for flag, (sign, means) in FLAGS.items()]
    return [
        *(f"{number} {reason}" for reason, number in notes.items()),
        *(f"{letters[word]} {word}: {means}" for word, means, _ in LEGEND),
        *flags,
        "hatched: stale; the darker a P, the nearer its worst element came to its limit; " + footing.BLANK,
        *filter(None, [footing.left_out(matrix)]),
        *footing.devices(matrix.columns),
        footing.provenance(matrix, cells),
    ]


EXPORT = Export("svg", render)
