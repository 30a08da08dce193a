"""Templates as pages: everything that is put into one is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from farm import own
from farm.marks import FLAGS
from farm.web.data import legend
from farm.web.security import Door

TEMPLATES = Path(__file__).parent / "templates"


class Page(Protocol):
    """Renders the template of a name."""

    def __call__(
        self, template: str, request: Request, status: int = 200, /, *, charts: bool = False, **values: Any
    ) -> HTMLResponse: ...


def pages(door: Door) -> Page:
    """The pages as a visitor of that door sees them."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"legend": legend(), "flags": FLAGS, "version": own.version()}

    def page(
        template: str, request: Request, status: int = 200, /, *, charts: bool = False, **values: Any
    ) -> HTMLResponse:
        values |= {"path": request.url.path, "acts": door.knows(request), "charts": charts}
        text = templates.get_template(f"{template}.html").render(values)
        return HTMLResponse(text, status, {"X-Farm-Charts": "1"} if charts else {})

    return page
