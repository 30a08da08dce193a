"""Runs the gateway: its socket, its coordinator, and the clock that takes silent workers' leases back."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn

from db.complaint import DatabaseTrouble
from db.session import Database, passwords_in
from farm.coordinator import TTL_S, Coordinator
from farm.exam import Examiner
from farm.gateway.app import Answer, application
from farm.gateway.guard import Ledger
from farm.gateway.place import Place, is_loopback
from farm.metrics_page import add_metrics
from farm.stored_metrics import Stored
from farm.web.security import LOOPBACK, Door, web_token
from kernels import catalog
from kernels.errors import FarmError
from workers.log import writing_to
from workers.state import state_folder

REAP_S = TTL_S / 2
BACKLOG = 1024
OPEN_CALLS = 2048  # connections at the same time; more are answered with 503


@contextlib.contextmanager
def listening(place: Place) -> Iterator[socket.socket]:
    """A socket bound to the address; FarmError where it can't be had."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((place.host, place.port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FarmError(f"can't listen on {place.host}:{place.port}: {reason}") from None
        sock.listen(BACKLOG)
        yield sock


class Server(uvicorn.Server):
    """Ends at SIGINT or SIGTERM as one that was asked to: uvicorn's own raises the signal once more."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # whoever runs the main thread hears them
            return
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(database: Database, place: Place, ready: Callable[[str, int], None]) -> None:
    """Answers until interrupted; `ready` gets address and epoch. FarmError when another head begins."""
    place.refuse_plain()
    with (
        writing_to("gateway", people=sys.stderr, secrets=passwords_in(database.engine.url)),
        listening(place) as sock,
        contextlib.closing(Coordinator(database, catalog.digest(), examiner=Examiner())) as coordinator,
    ):
        ended: list[str] = []
        coordinator.recorder.metrics.add(Stored(database))
        scrape = coordinator.recorder.metrics.text
        server = _server(database, place, coordinator.answer_apart, scrape, ended.append)
        ready(place.url(sock.getsockname()[1]), coordinator.epoch)
        with reaping(coordinator, server, ended):
            server.run(sockets=[sock])
    if ended:
        raise FarmError(ended[0])


def door_of(place: Place) -> Door:
    """Who may see the metrics: on loopback everybody, unless a proxy lets others in there."""
    private = place.behind_proxy or not is_loopback(place.host)
    return Door(web_token(state_folder()), private, hosts=() if private else LOOPBACK)


@contextlib.contextmanager
def beside(database: Database, place: Place, answer: Answer, scrape: Callable[[], bytes]) -> Iterator[str]:
    """Answers in a thread while the block runs, for a coordinator that lives elsewhere; gives the address.

    `answer` gives that one's answers, `scrape` its metrics. FarmError where the address can't be had or
    tokens would cross a network unencrypted.
    """
    place.refuse_plain()
    with listening(place) as sock:
        server = _server(database, place, answer, scrape, lambda _: None)
        thread = threading.Thread(target=server.run, args=([sock],), name="gateway", daemon=True)
        thread.start()
        try:
            yield place.url(sock.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def _server(
    database: Database,
    place: Place,
    answer: Answer,
    scrape: Callable[[], bytes],
    superseded: Callable[[str], None],
) -> Server:
    app = application(database, answer, Ledger(time.monotonic), superseded)
    add_metrics(app, scrape, door_of(place))
    return Server(
        uvicorn.Config(
            app,
            ssl_certfile=place.cert or None,
            ssl_keyfile=place.key or None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=OPEN_CALLS,
            lifespan="off",
        )
    )


@contextlib.contextmanager
def reaping(coordinator: Coordinator, server: uvicorn.Server, ended: list[str]) -> Iterator[None]:
    """What the coordinator does while nobody calls; ends the server when another head has begun."""
    done = threading.Event()

    def reap() -> None:
        while not done.wait(REAP_S):
            try:
                coordinator.tick()
            except DatabaseTrouble:
                continue  # workers are told so themselves, and wait
            except FarmError as error:
                ended.append(str(error))
            if ended:
                server.should_exit = True
                return

    thread = threading.Thread(target=reap, name="reaper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
