"""The dashboard as a web application: a page, and its JSON twin under /api, for all there is to see."""

from __future__ import annotations

import json
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from markupsafe import Markup
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from db.session import Database
from farm import exports, own
from farm.held import Holder
from farm.marks import timestamp
from farm.metrics_page import add_metrics
from farm.stored_metrics import registry_of
from farm.web import compared
from farm.web.actions import add_actions, add_login
from farm.web.events import add_events
from farm.web.pages import Page, pages, templates
from farm.web.query import KEYS, parse, with_words
from farm.web.reader import PARTS, Reader
from farm.web.security import Door, Forbidden, guard
from kernels.errors import FarmError, UnknownName, UsageError

HERE = Path(__file__).parent
KEPT = {"Cache-Control": "max-age=86400"}  # of what changes with a new version only
PACKED = 4  # of 9: a matrix of a megabyte is packed in 20 ms
COMPARED = 300  # cells of a sort that a page shows
LISTS = (*PARTS, "verdict", "flag")  # keys of the filter that have a list
Record = dict[str, Any]


def plotly_js() -> Path:
    """The charts' script, as the installed package has it."""
    return Path(str(files("plotly"))) / "package_data" / "plotly.min.js"


def application(database: Database, door: Door) -> FastAPI:
    """Pages under /, JSON under /api with an OpenAPI description, events under /events."""
    reader = Reader(database, Holder(database))
    app = FastAPI(
        title="kernel farm",
        version=own.version(),
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.middleware("http")(guard(door))
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=PACKED)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    made = templates()
    page = pages(door, made)
    _errors(app, page)
    _pages(app, reader, page)
    _matrix_page(app, reader, page)
    _api(app, reader)
    add_login(app, door, page)
    add_actions(app, reader, door)
    add_events(app, reader, made)

    add_metrics(app, partial(generate_latest, registry_of(database)), door)

    @app.get("/plotly.js", include_in_schema=False)
    def plotly() -> Response:
        return FileResponse(plotly_js(), media_type="text/javascript", headers=KEPT)

    reader.warm()
    return app


def _errors(app: FastAPI, page: Page) -> None:
    """One line, as JSON for whoever asked for JSON."""

    def answer(request: Request, status: int, line: str) -> Response:
        line = " ".join(line.split())
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": line}, status)
        return page("error", request, status, line=line)

    @app.exception_handler(FarmError)
    def failed(request: Request, error: FarmError) -> Response:
        status = 403 if isinstance(error, Forbidden) else 404 if isinstance(error, UnknownName) else 400
        return answer(request, status, str(error))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        if error.status_code != 404:
            return answer(request, error.status_code, str(error.detail))
        return answer(request, 404, f"there is no page {request.url.path[:200]}")

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        told = error.errors()[0]
        return answer(request, 422, f"{'.'.join(map(str, told['loc']))}: {told['msg']}")


def _pages(app: FastAPI, reader: Reader, page: Page) -> None:
    @app.get("/", include_in_schema=False)
    def overview(request: Request) -> Response:
        return page("overview", request, **reader.overview())

    @app.get("/cell/{name:path}", include_in_schema=False)
    def cell(request: Request, name: str) -> Response:
        found = reader.cell(name)
        charted = [row for row in reversed(found["history"]) if row["margin"] is not None]
        return page("cell", request, charts=bool(charted or found["times"]), charted=charted, **found)

    @app.get("/device/{slug}", include_in_schema=False)
    def device(request: Request, slug: str) -> Response:
        return page("device", request, **reader.device(slug))

    @app.get("/campaign/{campaign_id}", include_in_schema=False)
    def campaign(request: Request, campaign_id: int) -> Response:
        return page("campaign", request, **reader.campaign(campaign_id))

    @app.get("/compare", include_in_schema=False)
    def compare(request: Request, a: str = "", b: str = "") -> Response:
        complaint, status = "", 200
        changes: Record = {}
        try:
            changes = reader.compare(a, b) if a and b else {}
        except UsageError as error:
            complaint, status = str(error), 400
        about: Record = {"sides": compared.SIDES, "meanings": compared.MEANINGS, "most": COMPARED}
        return page("compare", request, status, a=a, b=b, complaint=complaint, changes=changes, **about)


def _matrix_page(app: FastAPI, reader: Reader, page: Page) -> None:
    @app.get("/matrix", include_in_schema=False)
    def matrix(request: Request, q: str = "", builds: str = "") -> Response:
        if not request.query_params.keys().isdisjoint(LISTS):
            asked = {"q": with_words(q, _changed(request, reader)), "builds": builds}
            return RedirectResponse(f"/matrix?{urlencode(asked)}".removesuffix("&builds="), 303)
        shown: Record = {"q": q, "apart": builds == "apart", "keys": KEYS, "complaint": ""}
        try:
            query = parse(q)
        except UsageError as error:
            choices = reader.choices(None)
            return page("matrix", request, 400, **shown | {"complaint": str(error)}, choices=choices)
        table = reader.table(query.text, builds == "apart")
        return page(
            "matrix",
            request,
            **shown | {"q": query.text},
            choices=reader.choices(query),
            table=Markup(table.html),
            counts=table.counts,
            digest=table.matrix.catalog_digest,
            generated=timestamp(table.matrix.generated_us),
        )


def _changed(request: Request, reader: Reader) -> dict[str, str]:
    """The form's lists that aren't as the page had them, which become words; one left alone says nothing."""
    asked = request.query_params
    try:
        shown = reader.choices(parse(asked.get("was", "")))
    except UsageError:
        shown = reader.choices(None)
    return {key: asked[key] for key in LISTS if key in asked and asked[key] != shown[key].chosen}


def _api(app: FastAPI, reader: Reader) -> None:
    @app.get("/api/overview")
    def overview() -> Record:
        """Campaigns, boards, newest bad cells and counts."""
        return reader.overview()

    @app.get("/api/matrix")
    def matrix(q: str = "") -> Record:
        """The JSON export of the cells that the filter line lets through, one for each board and build."""
        found: Record = json.loads(exports.export("json").render(reader.matrix(q)))
        return found

    @app.get("/api/cell/{name:path}")
    def cell(name: str) -> Record:
        """A cell explained, with the newest lines of its history."""
        return reader.cell(name)

    @app.get("/api/device/{slug}")
    def device(slug: str) -> Record:
        """A board, its fingerprints and its standing in its class."""
        return reader.device(slug)

    @app.get("/api/campaign/{campaign_id}")
    def campaign(campaign_id: int) -> Record:
        """A campaign, where it runs, and its bad jobs."""
        return reader.campaign(campaign_id)

    @app.get("/api/compare")
    def compare(a: str, b: str) -> Record:
        """Cells that two sides disagree on: campaign:N, source:DIGEST, at:DAY, or a filter line."""
        return reader.compare(a, b)
