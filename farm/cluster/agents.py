"""An agent for every board of every node, for as long as the node is there."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from farm.cluster.private import one_line
from kernels import codec
from kernels.errors import FarmError
from workers.boards import Board, NodeSurvey
from workers.protocol import Hello

STOP_S = 10.0  # for the running cases to end
BACKOFF_S = (0.0, 1.0, 2.0, 5.0, 15.0, 60.0)  # before an agent that died is started again
CALM_S = 300.0  # after which a board's deaths are forgotten


@dataclass
class Place:
    """A board of a node, its agent, and how often that one died lately."""

    board: Board
    node: str
    said: NodeSurvey  # by that node
    actor: Any = None
    deaths: int = 0
    died_s: float = 0.0
    not_before_s: float = 0.0
    refused: bool = False  # by the coordinator: until its node joins again


@dataclass
class Watch:
    """Nodes come and go; every board that is there has one agent, and one that died gets another."""

    ray: Any
    coordinator: Any
    backends: tuple[str, ...]
    say: Callable[..., object]  # takes a line, and what it is about by name
    clock: Callable[[], float] = time.monotonic
    spared: str = ""  # a node that is left alone, whatever it has
    _known: set[str] = field(default_factory=set)  # nodes that were asked what they have
    _asked: dict[Any, str] = field(default_factory=dict)  # ref of a survey -> node
    _places: dict[tuple[str, str], Place] = field(default_factory=dict)  # by node and slug
    _running: dict[Any, Place] = field(default_factory=dict)  # ref of an agent's run

    def look(self, timeout_s: float) -> None:
        """Notices what came, went and died; waits that long for something to happen."""
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        self._forget(alive)
        for node in alive - self._known - {self.spared}:
            self._known.add(node)
            self._asked[self._survey(node)] = node
        self._start_due()
        refs = [*self._asked, *self._running]
        ended, _ = self.ray.wait(refs, num_returns=1, timeout=timeout_s) if refs else ([], [])
        if not refs:
            time.sleep(timeout_s)
        for ref in ended:
            (self._surveyed if ref in self._asked else self._ended)(ref)

    def boards(self) -> tuple[str, ...]:
        """Slugs of the boards whose agents run."""
        return tuple(sorted(place.board.device.slug for place in self._running.values()))

    def end(self) -> None:
        """Lets the running cases end, then kills the agents."""
        actors = [place.actor for place in self._running.values()]
        with suppress(self.ray.exceptions.RayError):
            for actor in actors:
                actor.stop.remote()
            if self._running:
                self.ray.wait(list(self._running), num_returns=len(self._running), timeout=STOP_S)
        for actor in actors:
            with suppress(self.ray.exceptions.RayError, ValueError):
                self.ray.kill(actor)

    def _forget(self, alive: set[str]) -> None:
        for key, place in list(self._places.items()):
            if place.node not in alive:
                self.say("its node is gone", device=place.board.device.slug)
                del self._places[key]
        self._known &= alive

    def _survey(self, node: str) -> Any:
        # Imported here: the module imports ray.
        from workers.ray_agent import survey_node

        return survey_node(node, self.backends)

    def _surveyed(self, ref: Any) -> None:
        node = self._asked.pop(ref)
        try:
            said = codec.decode(NodeSurvey, json.loads(self.ray.get(ref)))
        except self.ray.exceptions.RayError as error:
            self.say(f"a node can't say what it has: {one_line(error)}")
            return
        except FarmError as error:
            self.say(f"refused, a node is of another version of the farm; bring both to one ({error})")
            return
        for board in said.boards:
            self._places[node, board.device.slug] = Place(board, node, said)
        if not said.boards:
            self.say("a node has joined on which nothing can run a case")

    def _start_due(self) -> None:
        from workers.ray_agent import start_agent

        now = self.clock()
        for place in self._places.values():
            if place.actor is None and not place.refused and place.not_before_s <= now:
                hello = hello_of(place)
                place.actor = start_agent(self.coordinator, hello, node=place.node, stays=True)
                self._running[place.actor.run.remote()] = place
                self.say(f"agent started for {', '.join(hello.backends)}", device=hello.device.slug)

    def _ended(self, ref: Any) -> None:
        place = self._running.pop(ref)
        slug, place.actor = place.board.device.slug, None
        try:
            summary = self.ray.get(ref)
        except self.ray.exceptions.RayActorError:
            self._died(place, "its process ended")
        except self.ray.exceptions.RayError as error:
            self._died(place, one_line(error))
        else:
            place.refused = summary.refused
            self.say(f"{'refused, ' if summary.refused else ''}{summary.reason}", device=slug)

    def _died(self, place: Place, why: str) -> None:
        now = self.clock()
        place.deaths = 1 if now - place.died_s > CALM_S else place.deaths + 1
        pause = BACKOFF_S[min(place.deaths, len(BACKOFF_S)) - 1]
        place.died_s, place.not_before_s = now, now + pause
        self.say(f"the agent died ({why}); another one in {pause:g} s", device=place.board.device.slug)


def hello_of(place: Place) -> Hello:
    """A new agent's; catalog and files are its node's own, which may differ from this one's."""
    board, said = place.board, place.said
    name, digest = str(uuid.uuid4()), said.catalog_digest
    return Hello(name, board.device, board.backends, digest, files=said.files, boot=said.boot)
