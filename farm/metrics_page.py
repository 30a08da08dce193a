"""`/metrics`: what Prometheus scrapes, to nobody off loopback without the token in .farm/web.token."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request, Response

from farm.metrics import CONTENT_TYPE
from farm.web.security import Door
from workers.protocol import Unreachable

PATH = "/metrics"


def add_metrics(app: FastAPI, scrape: Callable[[], bytes], door: Door) -> None:
    """Adds the page to an application; `scrape` gives its text, `door` says who may read it."""

    @app.get(PATH, include_in_schema=False)
    def metrics(request: Request) -> Response:
        if door.private and not door.knows(request):
            line = "farm: send Authorization: Bearer with the token in .farm/web.token\n"
            return Response(line, 401, {"WWW-Authenticate": "Bearer"}, media_type="text/plain")
        if reason := door.refuses(request):
            return Response(f"farm: {reason}\n", 403, media_type="text/plain")
        try:
            return Response(scrape(), media_type=CONTENT_TYPE)
        except Unreachable as error:  # a coordinator elsewhere, which is started again
            return Response(f"farm: {error}\n", 503, media_type="text/plain")
