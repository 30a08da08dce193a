"""The agent as a Ray actor: how its calls are carried, with Ray's own calls replaced at the seam."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import catalog, codec
from kernels.errors import FarmError
from tests.workers.test_agent import HELLO, FakeCoordinator, live_lease
from workers import ray_agent
from workers.at_work import Marks
from workers.boards import NodeSurvey
from workers.files import FileStore
from workers.json_calls import answer
from workers.protocol import Unreachable


class Method:
    """What handle.call is: remote() gives something that ray.get can wait for."""

    def __init__(self, coordinator: FakeCoordinator) -> None:
        self._coordinator = coordinator

    def remote(self, call: str, text: str) -> tuple[FakeCoordinator, str, str]:
        return self._coordinator, call, text


class Handle:
    def __init__(self, coordinator: FakeCoordinator) -> None:
        self.call = Method(coordinator)


@pytest.fixture
def got(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """The timeouts given to ray.get, which answers at once."""
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    timeouts: list[float] = []

    def get(ref: tuple[FakeCoordinator, str, str], timeout: float) -> str:
        timeouts.append(timeout)
        return answer(*ref)

    monkeypatch.setattr(ray_agent.ray, "get", get)
    return timeouts


def test_cases_are_leased_and_completed_through_the_actor(got: list[float]) -> None:
    coordinator = FakeCoordinator()
    coordinator.leases.extend(live_lease(number) for number in range(3))
    summary = ray_agent.RayAgent(Handle(coordinator), HELLO).run()
    assert (summary.ran, len(coordinator.stored)) == (3, 3)
    assert set(got) == {ray_agent.ANSWER_S}


def test_an_agent_with_cases_leaves_the_mark_that_keeps_its_node(got: list[float], tmp_path: Path) -> None:
    ray_agent.RayAgent(Handle(FakeCoordinator()), HELLO).run()
    assert not (tmp_path / "at-work").exists()
    coordinator = FakeCoordinator()
    coordinator.leases.append(live_lease(1))
    found = Marks(tmp_path)
    ray_agent.RayAgent(Handle(coordinator), HELLO).run()
    assert found.are_new()


def test_second_agent_of_a_board_is_refused(got: list[float]) -> None:
    first = ray_agent.RayAgent(Handle(FakeCoordinator()), HELLO)
    with pytest.raises(FarmError, match="another agent"):
        ray_agent.RayAgent(Handle(FakeCoordinator()), HELLO)
    first.run()


def test_an_agent_takes_its_board_and_never_a_gpu() -> None:
    """With num_gpus at 0 Ray leaves CUDA_VISIBLE_DEVICES alone."""
    hello = replace(HELLO, device=replace(HELLO.device, uuid="GPU-ab12"))
    declared = ray_agent.agent_options(hello, {"board:GPU-ab12": 1.0, "memory": 1e9})
    assert (declared["num_gpus"], declared["resources"]) == (0, {"board:GPU-ab12": 1.0})
    assert "resources" not in ray_agent.agent_options(hello, {"board:GPU-other": 1.0})
    assert "resources" not in ray_agent.agent_options(HELLO, {"": 1.0})


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ray_agent.GetTimeoutError("late"), Unreachable),
        (ray_agent.RaySystemError("broken"), Unreachable),
        (ray_agent.RayActorError(), Unreachable),
    ],
)
def test_coordinator_is_unreachable_when_its_actor_is(
    monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    def get(ref: Any, timeout: float) -> str:
        raise error

    monkeypatch.setattr(ray_agent.ray, "get", get)
    with pytest.raises(raised, match="no coordinator"):
        ray_agent.carrier(Handle(FakeCoordinator()))("hello", "{}")


class Ref:
    """What an event loop is given of a call: a future that ends with an error, or never."""

    def __init__(self, error: Exception | None) -> None:
        self.ended: Future[str] = Future()
        if error:
            self.ended.set_exception(error)

    def remote(self, call: str, text: str) -> Ref:
        return self

    def future(self) -> Future[str]:
        return self.ended


@pytest.mark.parametrize(
    ("error", "raised", "told"),
    [
        (ray_agent.RayActorError(), Unreachable, "no coordinator"),
        (ray_agent.RayTaskError("call", "", Unreachable("disk is full")), Unreachable, "disk is full"),
        (
            ray_agent.RayTaskError("call", "", ValueError("what")),
            FarmError,
            "coordinator failed at hello: what",
        ),
        (None, Unreachable, "no coordinator: GetTimeoutError"),
    ],
)
def test_an_event_loop_is_told_the_same(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, raised: type[Exception], told: str
) -> None:
    monkeypatch.setattr(ray_agent, "ANSWER_S", 0.01)
    carry = ray_agent.later_carrier(SimpleNamespace(call=Ref(error)))
    with pytest.raises(raised, match=told):
        asyncio.run(carry("hello", "{}"))


def test_a_coordinator_whose_database_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(ref: Any, timeout: float) -> str:
        raise ray_agent.RayTaskError("call", "a traceback", ray_agent.Unreachable("farm.db: disk is full"))

    monkeypatch.setattr(ray_agent.ray, "get", get)
    with pytest.raises(Unreachable, match=r"^farm\.db: disk is full$"):
        ray_agent.carrier(Handle(FakeCoordinator()))("renew", "{}")


def test_a_coordinator_that_fails_otherwise_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(ref: Any, timeout: float) -> str:
        raise ray_agent.RayTaskError("call", "a traceback", ValueError("what is this"))

    monkeypatch.setattr(ray_agent.ray, "get", get)
    with pytest.raises(FarmError, match="the coordinator failed at renew: what is this") as caught:
        ray_agent.carrier(Handle(FakeCoordinator()))("renew", "{}")
    assert not isinstance(caught.value, Unreachable)


def test_a_node_says_its_own_boards_catalog_and_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    path = tmp_path / "blocks.npy"
    np.save(path, np.zeros((2, 18), np.uint8))
    held = FileStore().register(path)
    said = codec.decode(NodeSurvey, json.loads(ray_agent.boards_here(("twin",))))
    assert [board.backends for board in said.boards] == [("twin",)]
    assert (said.catalog_digest, said.files) == (catalog.digest(), (held.sha256,))
