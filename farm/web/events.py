"""Server-sent events: the parts of a page that changed, as the page itself would show them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from jinja2 import Environment

from db.activity import Version, work_version
from farm.web.reader import Reader
from kernels.errors import FarmError

EVERY_S = 1.0  # between looks, while somebody watches
AT_LEAST_S = 10.0  # times to go and what runs are told anew, though nothing ended
OVERVIEW = {
    "live-counts": "counts",
    "live-campaigns": "campaigns",
    "live-boards": "boards",
    "live-bad": "bad",
}
CAMPAIGN = {"live-campaign": "campaign"}

Parts = dict[str, str]  # id of an element to its HTML


class Pulse:
    """The version of everything that moves: asked once a moment, however many watch."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[float, Version] = (-EVERY_S, ())

    def now(self) -> Version:
        with self._lock:
            at, version = self._seen
            if self._clock() - at >= EVERY_S / 2:
                with self._reader.database.reading() as s:
                    work = work_version(s)
                # What the pages' matrix was made of: one that took long to read is told when it is there.
                version = (*work, *self._reader.version(), int(self._clock() / AT_LEAST_S))
                self._seen = self._clock(), version
            return version


def add_events(app: FastAPI, reader: Reader, made: Environment) -> None:
    pulse = Pulse(reader)

    def parts(names: dict[str, str], values: dict[str, Any]) -> Parts:
        return {
            element: made.get_template(f"live/{name}.html").render(values) for element, name in names.items()
        }

    def told(request: Request, look: Callable[[], Parts]) -> Response:
        return StreamingResponse(_stream(request, pulse, look), media_type="text/event-stream")

    @app.get("/events/overview", include_in_schema=False)
    def overview(request: Request) -> Response:
        return told(request, lambda: parts(OVERVIEW, reader.overview()))

    @app.get("/events/campaign/{campaign_id}", include_in_schema=False)
    def campaign(request: Request, campaign_id: int) -> Response:
        reader.campaign(campaign_id)  # or there is nothing to stream
        return told(request, lambda: parts(CAMPAIGN, reader.campaign(campaign_id)))


async def _stream(request: Request, pulse: Pulse, look: Callable[[], Parts]) -> AsyncIterator[str]:
    """What changed since the last look; a comment where nothing did, so that a gone visitor is noticed."""
    seen: Version | None = None
    shown: Parts = {}
    while not await request.is_disconnected():
        try:
            now: Version | None = await asyncio.to_thread(pulse.now)
            found = await asyncio.to_thread(look) if now != seen else shown
        except FarmError:  # a database that is busy or gone for a moment; the page stays as it was
            found, now = shown, seen
        changed = {element: html for element, html in found.items() if shown.get(element) != html}
        seen, shown = now, found
        yield f"event: parts\ndata: {json.dumps(changed)}\n\n" if changed else ": nothing new\n\n"
        await asyncio.sleep(EVERY_S)
