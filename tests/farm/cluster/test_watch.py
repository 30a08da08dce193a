"""The watch over nodes and agents, with a Ray that does what a test says."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from farm.cluster import agents
from farm.cluster.agents import Watch
from kernels import codec
from kernels.model import Device
from workers.agent import Summary
from workers.boards import Board, NodeSurvey
from workers.protocol import Hello

BOARD = Board(Device("cpu-a", "cpu", "A processor", "uuid-a"), ("twin",))
CATALOG, FILE = "c" * 64, "f" * 64  # a node's, not this machine's


class ActorDied(Exception):
    """Stands for Ray's RayActorError."""


class AnyRayError(Exception):
    """Stands for Ray's RayError."""


@dataclass
class FakeRay:
    """Nodes, and refs that end with a value or an error."""

    alive: set[str] = field(default_factory=set)
    ends: dict[str, Any] = field(default_factory=dict)  # ref -> value or exception
    started: list[tuple[str, str]] = field(default_factory=list)  # slug and node of every agent
    hellos: list[Hello] = field(default_factory=list)  # one of each
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayActorError=ActorDied, RayError=AnyRayError)
    )

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": node, "Alive": True} for node in sorted(self.alive)]

    def wait(self, refs: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        ended = [ref for ref in refs if ref in self.ends][:num_returns]
        return ended, [ref for ref in refs if ref not in ended]

    def get(self, ref: str) -> Any:
        value = self.ends.pop(ref)
        if isinstance(value, Exception):
            raise value
        return value


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay()

    def start_agent(coordinator: Any, hello: Any, *, node: str, stays: bool) -> Any:
        assert stays
        ray.started.append((hello.device.slug, node))
        ray.hellos.append(hello)
        ref = f"run {len(ray.started)}"
        return SimpleNamespace(run=SimpleNamespace(remote=lambda: ref))

    module = SimpleNamespace(start_agent=start_agent, survey_node=lambda node, backends: f"survey {node}")
    monkeypatch.setitem(sys.modules, "workers.ray_agent", module)  # the real one imports ray
    return ray


@dataclass
class Scene:
    ray: FakeRay
    now: float = 100.0
    said: list[str] = field(default_factory=list)
    about: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = Watch(self.ray, object(), ("twin",), self._hear, lambda: self.now)

    def _hear(self, line: str, **about: str) -> None:
        self.said.append(line)
        self.about.append(about)

    def joins(self, node: str, *boards: Board) -> None:
        self.ray.alive.add(node)
        self.ray.ends[f"survey {node}"] = codec.canonical(NodeSurvey(boards, CATALOG, (FILE,)))
        self.look(2)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.watch.look(0.0)


@pytest.fixture
def scene(ray: FakeRay) -> Scene:
    return Scene(ray)


def test_every_board_of_a_node_gets_one_agent(scene: Scene) -> None:
    scene.joins("n1", BOARD)
    scene.look(5)
    assert scene.ray.started == [("cpu-a", "n1")]
    assert scene.watch.boards() == ("cpu-a",)


def test_an_agent_says_its_nodes_catalog_and_files(scene: Scene) -> None:
    scene.joins("n1", BOARD)
    (hello,) = scene.ray.hellos
    assert (hello.catalog_digest, hello.files) == (CATALOG, (FILE,))


def test_a_node_whose_checkout_says_it_otherwise_is_told_and_gets_no_agent(scene: Scene) -> None:
    scene.ray.alive.add("n1")
    scene.ray.ends["survey n1"] = codec.canonical((BOARD,))
    scene.look(5)
    (line,) = scene.said
    assert line.startswith("refused, a node is of another version of the farm; bring both to one (NodeSurvey")
    assert scene.ray.started == []


def test_a_node_without_boards_is_told_once(scene: Scene) -> None:
    scene.joins("n1")
    scene.look(5)
    assert scene.said == ["a node has joined on which nothing can run a case"]


def test_an_agent_that_dies_is_replaced_later_every_time(scene: Scene) -> None:
    scene.joins("n1", BOARD)
    for death, pause in enumerate(agents.BACKOFF_S, start=1):
        scene.ray.ends[f"run {death}"] = ActorDied()
        scene.look()
        scene.now += max(0.0, pause - 0.01)
        scene.look()
        assert len(scene.ray.started) == (death if pause else death + 1)
        scene.now += 0.02
        scene.look()
        assert len(scene.ray.started) == death + 1
    assert [line for line in scene.said if "died" in line][-1].endswith("another one in 60 s")


def test_deaths_long_ago_are_forgotten(scene: Scene) -> None:
    scene.joins("n1", BOARD)
    for run in (1, 2):
        scene.ray.ends[f"run {run}"] = ActorDied()
        scene.look()
        scene.now += agents.CALM_S + 1
        scene.look()
    assert [line for line in scene.said if "died" in line][-1].endswith("another one in 0 s")


def test_a_refused_board_waits_for_its_node_to_join_again(scene: Scene) -> None:
    scene.joins("n1", BOARD)
    scene.ray.ends["run 1"] = Summary(0, "catalog differs", refused=True)
    scene.look()
    scene.now += 1000
    scene.look(5)
    assert len(scene.ray.started) == 1
    assert (scene.said[-1], scene.about[-1]) == ("refused, catalog differs", {"device": "cpu-a"})
    scene.ray.alive.clear()
    scene.look()
    scene.joins("n2", BOARD)
    scene.look()
    assert scene.ray.started == [("cpu-a", "n1"), ("cpu-a", "n2")]


def test_a_survey_that_fails_is_told(scene: Scene) -> None:
    scene.ray.alive.add("n1")
    scene.ray.ends["survey n1"] = AnyRayError("no worker process")
    scene.look(2)
    assert scene.said == ["a node can't say what it has: AnyRayError: no worker process"]
    assert scene.ray.started == []


def test_a_spared_node_has_no_agent_and_others_have(scene: Scene) -> None:
    scene.watch.spared = "head"
    scene.joins("head", BOARD)
    scene.joins("n1", BOARD)
    scene.look(5)
    assert scene.ray.started == [("cpu-a", "n1")]
