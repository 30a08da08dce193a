"""Templates as pages and as parts of pages: everything that is put into one is escaped."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from farm import own
from farm.marks import FLAGS, LEGEND, LETTERS, NEVER_RUN
from farm.web import grid, style
from farm.web.query import with_words
from farm.web.security import Door
from kernels.evidence import Verdict

HERE = Path(__file__).parent
BYTES_A_GROUP = 4  # of a block's hexadecimal digits
CHARTED = "X-Farm-Charts"  # tells the guard that a page draws: its styles are set by the chart's script


class Page(Protocol):
    """Renders the template of a name."""

    def __call__(
        self, template: str, request: Request, status: int = 200, /, *, charts: bool = False, **values: Any
    ) -> HTMLResponse: ...


def templates() -> Environment:
    """The pages' templates, with what all of them use."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"legend": legend(), "version": own.version(), "assets": assets()}
    made.globals["style"] = Markup(style.text())
    made.globals["with_words"] = with_words
    made.filters |= {"bytes": spaced, "breaks": breaks}
    return made


def pages(door: Door, made: Environment) -> Page:
    """The pages as a visitor of that door sees them."""

    def page(
        template: str, request: Request, status: int = 200, /, *, charts: bool = False, **values: Any
    ) -> HTMLResponse:
        values |= {"path": request.url.path, "twin": twin(request), "acts": door.knows(request)}
        text = made.get_template(f"{template}.html").render(values, status=status)
        return HTMLResponse(text, status, {CHARTED: "1"} if charts else {})

    return page


def twin(request: Request) -> str:
    """Where the JSON of a page is, below /api."""
    path = "/overview" if request.url.path in ("/", "/login") else request.scope.get("raw_path", b"").decode()
    return f"{path}?{request.url.query}" if request.url.query else path


def assets() -> str:
    """Changes when a script or a style does, so that browsers may keep them."""
    files = sorted((HERE / "static").iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def spaced(digits: str) -> str:
    """Hexadecimal digits in groups of four bytes."""
    step = 2 * BYTES_A_GROUP
    return " ".join(digits[at : at + step] for at in range(0, len(digits), step))


def breaks(name: str) -> Markup:
    """A cell's name, which may be broken behind its slashes."""
    return Markup("/<wbr>").join(name.split("/"))


def legend() -> list[dict[str, str]]:
    """What the marks of the matrix look like, what they mean, who acts."""
    looks = {verdict.value: (grid.LOOKS[verdict], LETTERS[verdict]) for verdict in Verdict}
    looks |= {NEVER_RUN: ("", ""), Verdict.PASS.value: (grid.INEXACT[0], "P")}
    rows = [_row(*looks[word], _said(word, means), who) for word, means, who in LEGEND]
    near = f"PASS, the same, {grid.SHADES - 1}/{grid.SHADES} of the way to its limit or more, and exact"
    more = [
        _row(grid.EXACT[-1], "P", near),
        _row(grid.STALE, "P~", f"stale: {FLAGS['stale'][1]}"),
        _row(grid.STALE_BAD, "F~", "stale, and it was bad"),
        *(_row("", f"P{FLAGS[flag][0]}", f"{flag}: {FLAGS[flag][1]}") for flag in ("flaky", "suspect")),
        _row(grid.BUILT, grid.COMPILED, "it compiled for that architecture; nothing ran"),
        _row("n", "thb", "never run here; its source has rungs elsewhere: " + rungs()),
    ]
    return rows + more


def rungs() -> str:
    return ", ".join(f"{letter} {rung}" for rung, letter in grid.RUNG_LETTERS.items())


def _said(word: str, means: str) -> str:
    return means if word == NEVER_RUN else f"{word}: {means}"


def _row(look: str, letter: str, means: str, who: str = "") -> dict[str, str]:
    return {"look": look, "letter": letter, "means": means, "who": who}
