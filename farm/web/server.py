"""Serves the dashboard until it is interrupted."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn

from db.session import Database
from farm.gateway.place import Place, is_loopback
from farm.gateway.server import OPEN_CALLS, Server, listening
from farm.web.app import application
from farm.web.security import LOOPBACK, Door, web_token
from workers.state import state_folder

CLOSE_S = 2  # for open event streams


def serve(database: Database, place: Place, ready: Callable[[str], None]) -> None:
    """Answers until interrupted; `ready` gets the address. Off loopback everything needs the token."""
    place.refuse_plain()
    local = is_loopback(place.host)
    door = Door(web_token(state_folder()), private=not local, hosts=LOOPBACK if local else ())
    with listening(place) as sock:
        config = uvicorn.Config(
            application(database, door),
            ssl_certfile=place.cert or None,
            ssl_keyfile=place.key or None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=OPEN_CALLS,
            lifespan="off",
            timeout_graceful_shutdown=CLOSE_S,
        )
        scheme = "https" if place.cert else "http"
        ready(f"{scheme}://{place.host}:{sock.getsockname()[1]}/")
        Server(config).run(sockets=[sock])
