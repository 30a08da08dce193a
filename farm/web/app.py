"""The dashboard as a web application: a page, and its JSON twin under /api, for all there is to see."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from markupsafe import Markup
from starlette.middleware.gzip import GZipMiddleware

from db.activity import work_version
from db.session import Database
from farm import exports, own, steering
from farm.held import Holder
from farm.marks import timestamp
from farm.web import data, grid
from farm.web.data import Reader
from farm.web.pages import Page, pages
from farm.web.query import KEYS
from farm.web.security import COOKIE, Door, Forbidden, guard
from kernels.errors import FarmError, UnknownName, UsageError

HERE = Path(__file__).parent
EVENT_S = 1.0  # between looks at the database, while somebody watches
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
    app.add_middleware(GZipMiddleware, minimum_size=2000)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    page = pages(door)

    @app.exception_handler(FarmError)
    def failed(request: Request, error: FarmError) -> Response:
        status = 403 if isinstance(error, Forbidden) else 404 if isinstance(error, UnknownName) else 400
        line = " ".join(str(error).split())
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": line}, status)
        return page("error", request, status, line=line)

    _pages(app, reader, page)
    _api(app, reader)
    _actions(app, database, door, page)
    _events(app, database, reader)

    @app.get("/plotly.js", include_in_schema=False)
    def plotly() -> Response:
        kept = {"Cache-Control": "max-age=86400"}
        return FileResponse(plotly_js(), media_type="text/javascript", headers=kept)

    return app


def _pages(app: FastAPI, reader: Reader, page: Page) -> None:
    @app.get("/", include_in_schema=False)
    def overview(request: Request) -> Response:
        return page("overview", request, **reader.overview())

    @app.get("/matrix", include_in_schema=False)
    def matrix(request: Request, q: str = "") -> Response:
        try:
            found, query = reader.matrix(q)
        except UsageError as error:
            return page("filter", request, 400, q=q, complaint=str(error), keys=KEYS)
        return page(
            "matrix",
            request,
            q=query.text,
            complaint="",
            keys=KEYS,
            table=Markup(grid.table(found)),
            counts=data.counts(found.cells),
            digest=found.catalog_digest,
            generated=timestamp(found.generated_us),
        )

    @app.get("/cell/{name:path}", include_in_schema=False)
    def cell(request: Request, name: str) -> Response:
        return page("cell", request, charts=True, **reader.cell(name))

    @app.get("/device/{slug}", include_in_schema=False)
    def device(request: Request, slug: str) -> Response:
        return page("device", request, **reader.device(slug))

    @app.get("/campaign/{campaign_id}", include_in_schema=False)
    def campaign(request: Request, campaign_id: int) -> Response:
        return page("campaign", request, **reader.campaign(campaign_id))

    @app.get("/compare", include_in_schema=False)
    def compare(request: Request, a: str = "", b: str = "") -> Response:
        return page("compare", request, a=a, b=b, changes=_compared(reader, a, b) if a and b else {})


def _api(app: FastAPI, reader: Reader) -> None:
    @app.get("/api/overview")
    def overview() -> Record:
        """Campaigns, devices, newest bad cells and counts."""
        return reader.overview()

    @app.get("/api/matrix")
    def matrix(q: str = "") -> Record:
        """The JSON export of the cells that the filter line lets through."""
        found: Record = json.loads(exports.export("json").render(reader.matrix(q)[0]))
        return found

    @app.get("/api/cell/{name:path}")
    def cell(name: str) -> Record:
        """A cell explained, with the newest lines of its history."""
        return reader.cell(name)

    @app.get("/api/device/{slug}")
    def device(slug: str) -> Record:
        """A board, its fingerprint and its standing in its class."""
        return reader.device(slug)

    @app.get("/api/campaign/{campaign_id}")
    def campaign(campaign_id: int) -> Record:
        """A campaign and its bad jobs."""
        return reader.campaign(campaign_id)

    @app.get("/api/compare")
    def compare(a: str, b: str) -> Record:
        """Cells that two filter lines' matrices disagree on, row by row."""
        return _compared(reader, a, b)


def _compared(reader: Reader, a: str, b: str) -> Record:
    return data.changes(reader.matrix(a)[0], reader.matrix(b)[0])


def _actions(app: FastAPI, database: Database, door: Door, page: Page) -> None:
    @app.get("/login", include_in_schema=False)
    def ask(request: Request) -> Response:
        return page("login", request, complaint="")

    @app.post("/login", include_in_schema=False)
    def login(request: Request, token: Annotated[str, Form()]) -> Response:
        request.scope["headers"] = [*request.scope["headers"], (b"authorization", f"Bearer {token}".encode())]
        if not door.knows(Request(request.scope)):
            return page("login", request, 403, complaint="that is not the token in .farm/web.token")
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
        return answer

    @app.post("/campaign/{campaign_id}/{action}")
    def act(request: Request, campaign_id: int, action: str) -> Response:
        """Pauses or cancels a campaign; needs the token."""
        door.demand_actor(request)
        if action not in steering.ACTIONS:
            raise UnknownName("action", action, list(steering.ACTIONS))
        steering.ACTIONS[action](database, campaign_id, time.time_ns() // 1000)
        return RedirectResponse(f"/campaign/{campaign_id}", 303)


def _events(app: FastAPI, database: Database, reader: Reader) -> None:
    def version() -> object:
        with database.reading() as s:
            return work_version(s)

    @app.get("/events", include_in_schema=False)
    async def events(request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            seen: object = None
            while not await request.is_disconnected():
                now = await asyncio.to_thread(version)
                if now != seen:
                    seen = now
                    told = json.dumps(await asyncio.to_thread(reader.overview), allow_nan=False)
                    yield f"event: overview\ndata: {told}\n\n"
                else:
                    yield ": still here\n\n"
                await asyncio.sleep(EVENT_S)

        return StreamingResponse(stream(), media_type="text/event-stream")
