"""The part of a head that speaks to Ray, in a process of its own: Ray ends its driver when it ends itself.

    python -m farm.cluster.driver ADDRESS PLACE SPARED [BACKEND…]      the database's URL is in FARM_DB

PLACE is where a gateway listens, farm.gateway.place.Place as JSON, or empty for none. SPARED is not empty
where this node works on no case itself; BACKENDs are those of every node that does. Prints `gateway URL`
where there is one, and `ready` once jobs can be leased; SIGTERM ends it in order. Exit status: 0 stopped,
FINAL with the reason on stdout where another Ray would not help, anything else where Ray was lost.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from db.complaint import DatabaseTrouble
from db.session import open_existing, passwords_in
from farm.cluster.agents import Watch
from farm.cluster.private import NAMESPACE, one_line, start_coordinator
from farm.cluster.signals import stopped_by_signals
from farm.gateway.place import Place
from farm.log import logger
from kernels import codec
from kernels.errors import FarmError
from workers.json_calls import ask_apart
from workers.log import writing_to

FINAL = 4
LOST = 5
GLANCE_S = 0.5
NOTE_S = 5.0  # for the coordinator, at the end
ANSWER_S = 60.0  # for the coordinator, which opens the database and takes its leases back first


class HeadLost(Exception):
    """Ray's own processes are gone; everything else is in the database."""


@dataclass(frozen=True)
class Wanted:
    """What a head was told that is the driver's to do."""

    url: str  # of the database
    place: str  # where a gateway listens; empty for none
    spared: bool  # no agent on this node
    backends: tuple[str, ...]


def main(address: str, place: str, spared: str, *backends: str) -> int:
    """Works until stopped; the exit status."""
    stopping = threading.Event()
    wanted = Wanted(os.environ["FARM_DB"], place, bool(spared), backends)
    try:
        with stopped_by_signals(lambda *_: stopping.set()), connected(address) as ray:
            drive(ray, wanted, stopping)
    except FarmError as error:
        print(" ".join(str(error).split()), flush=True)
        return FINAL
    except HeadLost as error:
        say(str(error))
        return LOST
    return 0


def drive(ray: Any, wanted: Wanted, stopping: threading.Event) -> None:
    """A coordinator, an agent for every board, and a gateway where one is wanted, until stopped."""
    coordinator = start_coordinator(ray, wanted.url, examines=True)
    spared = ray.get_runtime_context().get_node_id() if wanted.spared else ""
    watch = Watch(ray, coordinator, wanted.backends, say, spared=spared)
    try:
        ray.get(coordinator.tick.remote(), timeout=ANSWER_S)
    except ray.exceptions.RayError as error:
        raise FarmError(f"the coordinator did not start: {reason(error)}") from None
    try:
        with gateway(wanted.url, wanted.place, coordinator):
            print("ready", flush=True)
            keep_watching(ray, coordinator, watch, stopping)
            note_boards(ray, coordinator)
    finally:
        watch.end()
        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(coordinator)


@contextmanager
def gateway(url: str, place: str, coordinator: Any) -> Iterator[None]:
    """Lets workers in that don't join Ray while the block runs; the coordinator's actor answers them."""
    if not place:
        yield
        return
    # Imported here: the one needs the extra `web`, the other imports ray.
    from farm.gateway.server import beside
    from workers.ray_agent import later_carrier, scraper

    where = codec.decode(Place, json.loads(place))
    answer = partial(ask_apart, later_carrier(coordinator))
    with beside(open_existing(url), where, answer, scraper(coordinator)) as address:
        print(f"gateway {address}", flush=True)
        yield


def say(line: str, **about: str) -> None:
    logger("head").info(line, **about)


def keep_watching(ray: Any, coordinator: Any, watch: Watch, stopping: threading.Event) -> None:
    asked = coordinator.tick.remote()
    while not stopping.is_set():
        try:
            watch.look(GLANCE_S)
            if ray.wait([asked], timeout=0)[0]:
                _ticked(ray, asked, watch)
                asked = coordinator.tick.remote()
        except (ray.exceptions.RaySystemError, ConnectionError) as error:
            raise HeadLost(one_line(error)) from None


def note_boards(ray: Any, coordinator: Any) -> None:
    """Has the boards that are heard dated, for `farm down` to name; a head ends without that too."""
    with suppress(ray.exceptions.RayError):
        ray.get(coordinator.note_boards.remote(), timeout=NOTE_S)


def _ticked(ray: Any, asked: Any, watch: Watch) -> None:
    """An actor that is restarted, or whose database is in trouble, answers later; all else ends the head."""
    try:
        ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, DatabaseTrouble):
            watch.say(f"{error.cause}; tried again")
            return
        raise FarmError(reason(error)) from None
    except ray.exceptions.RayActorError:
        watch.say("the coordinator ended; Ray starts another, agents say hello again")


def reason(error: BaseException) -> str:
    """What the farm's own code said, without the class that Ray writes in front."""
    line = one_line(error)
    return line.partition(": ")[2] or line


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module ray, connected to a head."""
    import ray

    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # noqa: BLE001 - Ray raises whatever went wrong in its processes
        raise HeadLost(f"no connection to Ray at {address}: {one_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


if __name__ == "__main__":
    with writing_to("driver", people=sys.stderr, secrets=passwords_in(os.environ["FARM_DB"])):
        sys.exit(main(*sys.argv[1:]))
