"""What ends a head or a coordinator, and what it lives through."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from db.complaint import DatabaseTrouble
from db.epoch import StaleEpoch
from farm.cluster import private
from farm.cluster.driver import _ticked, note_boards
from kernels.errors import FarmError

NODE = "0f" * 28


class TaskFailed(Exception):
    """Stands for Ray's RayTaskError."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class ActorDied(Exception):
    """Stands for Ray's RayActorError."""


@dataclass
class Scene:
    """A Ray whose get() raises, and what the watch said."""

    error: Exception
    said: list[str] = field(default_factory=list)
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayTaskError=TaskFailed, RayActorError=ActorDied)
    )

    def get(self, ref: object) -> None:
        raise self.error

    def tick(self) -> list[str]:
        _ticked(self, object(), SimpleNamespace(say=self.said.append))
        return self.said


def test_a_database_in_trouble_is_told_and_lived_through() -> None:
    assert Scene(TaskFailed(DatabaseTrouble("farm.db: disk is full"))).tick() == [
        "farm.db: disk is full; tried again"
    ]


def test_a_coordinator_that_ends_is_told_and_lived_through() -> None:
    (line,) = Scene(ActorDied()).tick()
    assert line.startswith("the coordinator ended")


@pytest.mark.parametrize("cause", [StaleEpoch("epoch 3 is over"), ValueError("a mistake of ours")])
def test_all_else_ends_the_head(cause: Exception) -> None:
    with pytest.raises(FarmError):
        Scene(TaskFailed(cause)).tick()


def test_a_head_that_ends_has_the_boards_noted_and_ends_without_that_too() -> None:
    asked: list[str] = []

    def get(ref: str, timeout: float) -> None:
        asked.append(ref)
        raise TaskFailed(DatabaseTrouble("farm.db: disk is full"))

    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=TaskFailed))
    coordinator = SimpleNamespace(note_boards=SimpleNamespace(remote=lambda: "note"))
    note_boards(ray, coordinator)
    assert asked == ["note"]


def test_a_coordinator_stays_on_the_node_of_its_driver() -> None:
    """Ray puts an actor that asks for no processor on any node, and a SQLite file is on one machine."""
    told: dict[str, Any] = {}

    class Remote:
        def __init__(self, _: type) -> None: ...

        def options(self, **options: Any) -> Any:
            told.update(options)
            return SimpleNamespace(remote=lambda *_: "an actor")

    context = SimpleNamespace(get_node_id=lambda: NODE)
    ray = SimpleNamespace(remote=Remote, get_runtime_context=lambda: context)
    assert private.start_coordinator(ray, "a url") == "an actor"
    assert (told["scheduling_strategy"].node_id, told["scheduling_strategy"].soft) == (NODE, False)
    assert told["max_restarts"] == -1


def test_a_coordinator_waits_for_a_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def open_existing(url: str) -> str:
        tries.append(url)
        if len(tries) < 3:
            raise DatabaseTrouble("the server is starting up")
        return "a database"

    monkeypatch.setattr(private, "open_existing", open_existing)
    monkeypatch.setattr(private, "TROUBLE_S", 0.0)
    assert (private.when_there("a url"), len(tries)) == ("a database", 3)


def test_what_is_wrong_for_good_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_existing(url: str) -> str:
        raise FarmError("no database at farm.db")

    monkeypatch.setattr(private, "open_existing", open_existing)
    with pytest.raises(FarmError, match="no database at"):
        private.when_there("a url")
