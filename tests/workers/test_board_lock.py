"""One agent a board, in whatever folder it works."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.errors import FarmError
from kernels.model import Device
from workers import board_lock
from workers.board_lock import BoardLock, lock_name
from workers.board_thread import BoardThread
from workers.json_calls import Caller
from workers.machine import cpu_device


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_lock, "PATIENCE_S", 0.0)


GPU = Device("rtx-3060-1", "rtx-3060", "RTX 3060", "GPU-5a2f0b9c-0000-4000-8000-0123456789ab")


def test_second_agent_of_a_board_is_refused_in_one_line_and_gets_it_when_the_first_ends(
    tmp_path: Path,
) -> None:
    first = BoardLock(GPU, tmp_path)
    with pytest.raises(FarmError, match=f"^RTX 3060 .{GPU.uuid}.: another agent works for this board.*$"):
        BoardLock(GPU, tmp_path)
    BoardLock(replace(GPU, uuid="GPU-1"), tmp_path).close()
    first.close()
    BoardLock(GPU, tmp_path).close()


def test_processors_are_shared(tmp_path: Path) -> None:
    locks = [BoardLock(cpu_device(), tmp_path) for _ in range(2)]
    assert [lock.descriptor for lock in locks] == [None, None]
    assert not list(tmp_path.iterdir())


def test_board_stays_locked_while_a_child_of_a_dead_agent_lives(tmp_path: Path) -> None:
    lock = BoardLock(GPU, tmp_path)
    assert lock.descriptor is not None
    sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(sleeper, stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    lock.close()
    with pytest.raises(FarmError, match="a child of one that can't be killed holds it"):
        BoardLock(GPU, tmp_path)
    child.communicate()
    BoardLock(GPU, tmp_path).close()


def test_lock_that_somebody_else_made_can_be_held(tmp_path: Path) -> None:
    (tmp_path / lock_name(GPU)).touch()
    os.chmod(tmp_path / lock_name(GPU), 0o444)
    BoardLock(GPU, tmp_path).close()


def test_agents_in_two_folders_do_not_share_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    caller = Caller(lambda call, text: "")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "one"))
    first = BoardThread(caller, GPU, ("host",))
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "two"))
    with pytest.raises(FarmError, match="another agent works for this board"):
        BoardThread(caller, GPU, ("host",))
    first.agent.stop()
    first.run()
    second = BoardThread(caller, GPU, ("host",))
    second.agent.stop()
    second.run()
    assert (first.failure, second.failure) == ("", "")
