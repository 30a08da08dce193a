"""A machine that was part of a farm comes back to it, whatever its own Ray says at a try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.cluster import join
from farm.cluster.join import Member, Words
from kernels.errors import FarmError

TIMED_OUT = "Ray did not start: the node timed out during startup"


class Node:
    """A Ray node that is lost at once."""

    def joined(self) -> None: ...

    def alive(self) -> bool:
        return False


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
