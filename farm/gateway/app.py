"""The gateway as a web application: JSON in, JSON out, and limits before anything is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from db import token
from db.complaint import DatabaseTrouble
from db.epoch import StaleEpoch as Superseded
from db.session import Database
from db.token import Refused
from farm.gateway.guard import Guarded, Ledger, OutOfScope, TooOften
from farm.gateway.refusals import Refusals
from kernels.errors import FarmError
from workers import json_calls
from workers.clock import wall_clock
from workers.log import printable
from workers.protocol import StaleEpoch, Unreachable, Welcome

MOST_BYTES = 16 << 20  # of one message: 64 evidence lines are below 1 MiB
Answer = Callable[[Any], Awaitable[Any]]  # of a coordinator, to a message of workers.protocol
RETRY_S = 1  # what a client that asks too often is told to wait


class TooLarge(FarmError):
    """A message over the limits."""


# What a refusal is to HTTP; the first class that fits counts.
STATUS: tuple[tuple[type[FarmError], int], ...] = (
    (Refused, 401),
    (OutOfScope, 403),
    (TooLarge, 413),
    (TooOften, 429),
    (Superseded, 503),
    (DatabaseTrouble, 503),  # a full disk, a server that restarts: workers wait and ask again
    (Unreachable, 503),
    (FarmError, 400),
)


def application(
    database: Database,
    answer: Answer,
    ledger: Ledger,
    superseded: Callable[[str], None],
    now_us: Callable[[], int] = wall_clock,
) -> FastAPI:
    """POST /v1/{call} for the four calls and GET /health; `superseded` hears of another head."""
    app = FastAPI(title="kernel farm gateway", docs_url=None, redoc_url=None, openapi_url=None)
    refusals = Refusals(ledger.clock)

    def heard(call: str, bearer: str, text: str) -> Any:
        with database.reading() as s:
            row = token.find(s, bearer, now_us())
        ledger.charge(row.id)
        return Guarded(row, ledger).checked(json_calls.message_of(call, text))

    async def answered(call: str, bearer: str, text: str) -> str:
        try:
            message = await run_in_threadpool(heard, call, bearer, text)
            said = await answer(message)
        except StaleEpoch as error:
            return json_calls.stale(error)
        if isinstance(said, Welcome) and not said.accepted:
            ledger.forget(message.worker_id)
        return json_calls.text_of(said)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/{call}")
    async def call(call: str, request: Request) -> Response:
        try:
            bearer = bearer_of(request.headers.get("authorization", ""))
            text = await body(request)
            # To the end, whoever went away: what was leased is noted behind its transaction.
            said = await asyncio.shield(answered(call, bearer, text))
            return Response(said, media_type="application/json")
        except FarmError as error:
            if isinstance(error, Superseded):
                superseded(str(error))
            status = next(code for kind, code in STATUS if isinstance(error, kind))
            refusals.note(call, status, str(error))
            return _plain(status, error)

    return app


def bearer_of(header: str) -> str:
    """The secret of an Authorization header; Refused for anything else."""
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Refused("no token; send Authorization: Bearer …")
    return secret.strip()


async def body(request: Request) -> str:
    """The message's text, read no further than the limit; TooLarge, or FarmError where it is no UTF-8."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise TooLarge(f"a message of more than {MOST_BYTES} bytes; send fewer lines at once")
    try:
        return data.decode("utf8")
    except UnicodeDecodeError:
        raise FarmError("the message is no UTF-8") from None


def _plain(status: int, error: FarmError) -> Response:
    headers = {"Retry-After": str(RETRY_S)} if status in (429, 503) else {}
    # A message may quote half a surrogate pair, which is no UTF-8.
    line = printable(" ".join(str(error).split())[:500])
    return Response(line, status, headers, media_type="text/plain")
