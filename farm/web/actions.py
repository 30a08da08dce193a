"""What a visitor with the token may do: log in, steer campaigns, set boards aside, link bugs."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse

from db import bug
from db.session import Database
from farm import standing, steering
from farm.cell_name import find_cells
from farm.web import explained
from farm.web.pages import Page
from farm.web.reader import Reader
from farm.web.security import COOKIE, Door
from kernels.errors import UnknownName, UsageError
from workers.clock import wall_clock

DIFFERENT = 303  # look elsewhere, with GET
Text = Annotated[str, Form()]


def add_login(app: FastAPI, door: Door, page: Page) -> None:
    @app.get("/login", include_in_schema=False)
    def ask(request: Request) -> Response:
        return page("login", request, complaint="")

    @app.post("/login", include_in_schema=False)
    def login(request: Request, token: Text) -> Response:
        if not door.is_secret(token):
            return page("login", request, 403, complaint="that is not the token in .farm/web.token")
        answer = RedirectResponse("/", DIFFERENT)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
        return answer


def add_actions(app: FastAPI, reader: Reader, door: Door) -> None:
    database = reader.database

    @app.post("/campaign/{campaign_id}/{action}")
    def act(request: Request, campaign_id: int, action: str) -> Response:
        """Pauses, resumes, cancels or retries a campaign; needs the token."""
        door.demand_actor(request)
        if action not in steering.ACTIONS:
            raise UnknownName("action", action, list(steering.ACTIONS))
        row = steering.ACTIONS[action](database, campaign_id, wall_clock())
        return RedirectResponse(f"/campaign/{row.id}", DIFFERENT)

    @app.post("/device/{slug}/{action}")
    def stand(request: Request, slug: str, action: str) -> Response:
        """Sets a board aside or readmits it; needs the token."""
        door.demand_actor(request)
        if action not in standing.ACTIONS:
            raise UnknownName("action", action, list(standing.ACTIONS))
        with database.writing() as s:
            standing.ACTIONS[action](s, slug, wall_clock())
        return RedirectResponse(f"/device/{quote(slug)}", DIFFERENT)

    @app.post("/bugs")
    def link(request: Request, cell: Text, url: Text) -> Response:
        """Links an address to a cell, in one build or, where the cell names none, in all; needs the token."""
        door.demand_actor(request)
        _link(database, reader, cell, url)
        return RedirectResponse(f"/cell/{quote(cell)}", DIFFERENT)

    @app.post("/bugs/{bug_id}/unlink")
    def unlink(request: Request, bug_id: int, cell: Text) -> Response:
        """Takes a link away; needs the token."""
        door.demand_actor(request)
        with database.writing() as s:
            if not bug.unlink(s, bug_id):
                raise UsageError(f"no linked bug {bug_id}; somebody took it away")
        return RedirectResponse(f"/cell/{quote(cell)}", DIFFERENT)


def _link(database: Database, reader: Reader, name: str, url: str) -> None:
    """The cells' names become subjects: boards of one class are one."""
    parts = find_cells(reader.matrix(""), name)
    with_build = name.count("/") == 5
    subjects = {explained.subject_of(cell, with_build) for cell in parts}
    with database.writing() as s:
        for subject in subjects:
            bug.link(s, subject, url.strip(), wall_clock())
