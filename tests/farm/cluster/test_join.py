"""A machine that was part of a farm comes back to it, whatever its own Ray says at a try."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.cluster import join
from farm.cluster.join import Member, Words
from farm.cluster.probe import Away
from kernels.errors import FarmError
from tests.workers.test_leaving import Hours
from workers.at_work import NAME

TIMED_OUT = "Ray did not start: the node timed out during startup"


class Node:
    """A Ray node that is lost at once."""

    def joined(self) -> None: ...

    def ports(self) -> tuple[int, ...]:
        return ()

    def alive(self) -> bool:
        return False


LOOKS = 50  # after which a member that should have left has forgotten to


class Steady(Node):
    """One that isn't for many looks, or while this says so."""

    def __init__(self, alive: Callable[[], bool] | None = None) -> None:
        looks = iter(range(LOOKS))
        self.alive = alive or (lambda: next(looks, None) is not None)  # type: ignore[method-assign]


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Member, list[str], list[object]]:
    """A member, what it said, and what its next nodes are: a Node, or an error."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    said: list[str] = []
    nodes: list[object] = []
    found = Member(Words("127.0.0.1:1", token, host="127.0.0.1"), said.append)

    @contextmanager
    def node(words: tuple[str, ...], home: Path) -> Iterator[Node]:
        following = nodes.pop(0)
        if not nodes:
            found.stop()
        if isinstance(following, Exception):
            raise following
        yield following

    monkeypatch.setattr(join, "node", node)
    monkeypatch.setattr(join, "BACKOFF_S", (0.0,))
    monkeypatch.setattr(join.probe, "admitted", lambda address, token: None)
    return found, said, nodes


def idle_member(tmp_path: Path, said: list[str]) -> Member:
    """One that leaves when idle for an hour, of which each look takes 20 minutes."""
    words = Words("127.0.0.1:1", tmp_path / "token", host="127.0.0.1", idle_minutes=60)
    return Member(words, said.append, Hours(step_s=1200))


@pytest.fixture
def nodes(member: tuple[Member, list[str], list[object]], monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setattr(join, "GLANCE_S", 0.0)
    monkeypatch.setattr(join, "reachable", lambda address: True)
    return member[2]


def test_a_member_without_a_case_leaves_when_idle_for_too_long(nodes: list[object], tmp_path: Path) -> None:
    said: list[str] = []
    nodes += [Steady(), Node()]
    idle_member(tmp_path, said).run()
    assert said[1:] == ["nothing to do for 60 minutes; leaves"]
    assert len(nodes) == 1  # it joined once


def test_a_member_stays_while_its_agents_have_cases(nodes: list[object], tmp_path: Path) -> None:
    said: list[str] = []
    looks: list[int] = []

    def busy_for_nine() -> bool:
        looks.append(len(said))
        if len(looks) <= 9:
            os.utime(tmp_path / NAME, ns=(len(looks), len(looks)))
        return len(looks) < LOOKS

    (tmp_path / NAME).touch()
    nodes += [Steady(busy_for_nine), Node()]
    idle_member(tmp_path, said).run()
    assert len(looks) == 12
    assert said[-1] == "nothing to do for 60 minutes; leaves"


def test_a_member_that_waits_for_its_head_is_idle_too(
    nodes: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(address: str, token: Path) -> None:
        asked.append(address)
        assert len(asked) < LOOKS
        if len(asked) > 1:
            raise Away("nobody answers")

    asked: list[str] = []
    monkeypatch.setattr(join.probe, "admitted", away)
    said: list[str] = []
    nodes += [Node(), Node()]
    idle_member(tmp_path, said).run()
    assert said[-1] == "nothing to do for 60 minutes; leaves"


@pytest.mark.parametrize(("minutes", "tries"), [(60, 5), (100, 7), (0.0, 20)])
def test_a_member_without_a_head_ends_after_so_many_minutes(
    nodes: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, tries: int
) -> None:
    """Each try takes 20 of them; without a limit it goes on until it is stopped."""
    words = Words("127.0.0.1:1", tmp_path / "token", host="127.0.0.1", minutes=minutes)
    clock, asked = Hours(), []
    found = Member(words, str, clock)

    def away(address: str, token: Path) -> None:
        asked.append(address)
        clock.now_s += 1200
        if len(asked) == 20:
            found.stop()
        if len(asked) > 1:
            raise Away("nobody answers")

    monkeypatch.setattr(join.probe, "admitted", away)
    nodes += [Node(), Node()]
    if minutes:
        with pytest.raises(FarmError, match=r"nobody answers; for .* minutes: this machine's work is done"):
            found.run()
    else:
        found.run()
    assert len(asked) == tries


def test_a_member_whose_ray_does_not_start_again_tries_once_more(
    member: tuple[Member, list[str], list[object]],
) -> None:
    found, said, nodes = member
    nodes += [Node(), FarmError(TIMED_OUT), Node()]
    found.run()
    assert nodes == []
    assert f"{TIMED_OUT}; tried again" in said
    assert sum(line.startswith("joined 127.0.0.1:1") for line in said) == 2


def test_a_machine_that_never_was_a_member_is_told_why(
    member: tuple[Member, list[str], list[object]],
) -> None:
    found, _, nodes = member
    nodes += [FarmError(TIMED_OUT), Node()]
    with pytest.raises(FarmError, match="did not start"):
        found.run()
