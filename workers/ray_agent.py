"""An agent as a Ray actor: nothing but the carrying of its calls to the coordinator's actor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RaySystemError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernels import catalog, codec
from kernels.errors import FarmError
from workers.agent import Agent, Summary
from workers.at_work import marking
from workers.board_lock import BoardLock
from workers.boards import NodeSurvey, resource, survey, wanted_backends
from workers.files import FileStore
from workers.json_calls import Caller
from workers.log import writing_to
from workers.machine import boot_id
from workers.protocol import Hello, Unreachable
from workers.slots import slot_maker
from workers.spool import Spool
from workers.state import state_folder

ANSWER_S = 60.0  # after which a coordinator counts as away; the calls can be repeated
CONCURRENCY = 2  # `stop` is heard while `run` runs


class RayAgent:
    """One board's agent; `coordinator` is an actor with a method call(name, text) -> text."""

    def __init__(self, coordinator: Any, hello: Hello, stays: bool = False) -> None:
        """`stays` keeps the agent waiting for the next campaign when there is nothing to do."""
        self._lock = BoardLock(hello.device)
        self._spool = Spool(state_folder() / "spool" / f"{hello.device.slug}.jsonl")
        slot = slot_maker(hello.backends, self._lock)
        caller = Caller(marking(carrier(coordinator), state_folder()))
        self._agent = Agent(caller, hello, self._spool, slot, stays=stays)

    def run(self) -> Summary:
        """Works until the agent ends by itself or is stopped."""
        try:
            with writing_to(f"agent-{self._agent.device.slug}"):
                return self._agent.run()
        finally:
            self._lock.close()
            self._spool.close()

    def stop(self) -> None:
        self._agent.stop()


def carrier(coordinator: Any) -> Callable[[str, str], str]:
    """Carries one call to the actor: Unreachable if it or its database is away, FarmError if it failed."""

    def carry(call: str, text: str) -> str:
        with _told(call):
            return str(ray.get(coordinator.call.remote(call, text), timeout=ANSWER_S))

    return carry


def later_carrier(coordinator: Any) -> Callable[[str, str], Awaitable[str]]:
    """As `carrier`, for an event loop: no thread waits for the actor."""

    async def carry(call: str, text: str) -> str:
        with _told(call):
            said = asyncio.wrap_future(coordinator.call.remote(call, text).future())
            said.add_done_callback(lambda late: late.cancelled() or late.exception())  # whoever waits for it
            done, _ = await asyncio.wait([said], timeout=ANSWER_S)
            if not done:
                raise GetTimeoutError(f"no answer in {ANSWER_S:g} s")
            return str(said.result())

    return carry


@contextmanager
def _told(call: str) -> Iterator[None]:
    """What a call to the actor comes to where it fails, in the farm's words."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, Unreachable):  # it can't reach its database
            raise Unreachable(str(error.cause)) from None
        last = str(error.cause or error).strip().splitlines()[-1:]
        raise FarmError(f"the coordinator failed at {call}: {' '.join(last)}") from None
    except (RayActorError, RaySystemError, GetTimeoutError) as error:
        raise Unreachable(f"no coordinator: {type(error).__name__}") from None


def scraper(coordinator: Any) -> Callable[[], bytes]:
    """Asks the actor for its metrics; Unreachable if it is gone or silent."""

    def scrape() -> bytes:
        try:
            return bytes(ray.get(coordinator.metrics.remote(), timeout=ANSWER_S))
        except (RayTaskError, RayActorError, RaySystemError, GetTimeoutError) as error:
            raise Unreachable(f"no coordinator: {type(error).__name__}") from None

    return scrape


def start_agent(coordinator: Any, hello: Hello, *, node: str = "", stays: bool = False) -> Any:
    """Starts an agent for a board of a node, or of this one; it has run() -> Summary and stop()."""
    declared = ray.cluster_resources()  # type: ignore[no-untyped-call]
    options = agent_options(hello, declared) | on(node)
    return ray.remote(RayAgent).options(**options).remote(coordinator, hello, stays)


def agent_options(hello: Hello, declared: Mapping[str, float]) -> dict[str, Any]:
    """What an agent asks of Ray: the board itself where its node declared it, and never a GPU.

    A board that came after its node had started isn't declared; the lock of its UUID is what guards it then.
    """
    name = resource(hello.device)
    held = {"resources": {name: 1.0}} if name and name in declared else {}
    return {
        "num_cpus": 0, "num_gpus": 0, "max_concurrency": CONCURRENCY, "max_restarts": 0, **held,
    }  # fmt: skip


def survey_node(node: str, backends: tuple[str, ...]) -> Any:
    """Asks a node what it has; the ref's value is a workers.boards.NodeSurvey as JSON."""
    return ray.remote(boards_here).options(num_cpus=0, max_retries=0, **on(node)).remote(backends)


def boards_here(backends: tuple[str, ...]) -> str:
    boards = survey(wanted_backends(backends)).boards
    return codec.canonical(NodeSurvey(boards, catalog.digest(), FileStore().digests(), boot_id()))


def on(node: str) -> dict[str, Any]:
    """Options that keep an actor or a task on that node and on no other."""
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)} if node else {}
