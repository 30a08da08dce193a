"""What a running head leaves for other commands, and what a killed one leaves."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from farm.cluster import head_file, join, probe
from farm.cluster.head_file import HeadFile
from kernels.errors import FarmError, UsageError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    return tmp_path


def mine(**changes: int) -> HeadFile:
    values = {"pid": os.getpid(), "born": head_file.born(os.getpid())} | changes
    return HeadFile(**values, address="10.0.0.5:6379", ports=(1, 2), database="sqlite:///x")


def test_a_running_head_is_found() -> None:
    assert head_file.running() is None
    head_file.write(mine())
    assert head_file.running() == mine()
    assert stat.S_IMODE(head_file.path().stat().st_mode) == 0o600
    head_file.remove()
    assert head_file.running() is None


def test_a_pid_that_was_given_to_another_process_is_no_head() -> None:
    head_file.write(mine(born=1))
    assert head_file.running() is None
    assert not head_file.path().exists()


def test_a_killed_process_that_nobody_reaped_is_no_head() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as head:
        head_file.write(mine(pid=head.pid, born=head_file.born(head.pid)))
        assert head_file.running() is not None
        head.kill()
        os.waitid(os.P_PID, head.pid, os.WEXITED | os.WNOWAIT)  # it has ended and stays a zombie
        assert Path(f"/proc/{head.pid}").exists()
        assert head_file.running() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_a_damaged_file_is_no_head(text: str) -> None:
    head_file.path().write_text(text)
    assert head_file.running() is None


def test_the_end_of_a_head_is_waited_for() -> None:
    assert not head_file.wait_for_end(mine(), 0.0)
    assert head_file.wait_for_end(mine(born=1), 0.0)


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", "host:0", "host:70000", ":6379"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is no head's address; want HOST:PORT"):
        probe.split(address)


def test_an_address() -> None:
    assert probe.split("10.0.0.5:6379") == ("10.0.0.5", 6379)
    assert probe.split("[::1]:6379") == ("::1", 6379)


def test_nobody_at_the_address(tmp_path: Path) -> None:
    with pytest.raises(probe.Away, match=r"nobody answers at 127\.0\.0\.1:9"):
        probe.admitted("127.0.0.1:9", tmp_path / "token")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ray": "2.1.0"}, r"Ray .* here, 2\.1\.0 at 127\.0\.0\.1"),
        ({"python": "3.9.1"}, r"Python .* here, 3\.9\.1 at 127\.0\.0\.1"),
        ({}, "lets anybody in: it has no token"),
    ],
)
def test_a_head_of_another_version_or_without_a_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, str], why: str
) -> None:
    """The head answers everybody, whatever the token."""
    own = probe.own_versions()
    said = probe.Versions(changes.get("ray", own.ray), changes.get("python", own.python))
    monkeypatch.setattr(probe, "_ask", lambda *_: said)
    with join.socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(probe.NotAdmitted, match=why):
            probe.admitted(address, tmp_path / "token")


def test_a_head_is_reachable_or_not() -> None:
    with join.socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert join.reachable(address)
    assert not join.reachable(address)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with pytest.raises(FarmError, match=r"No such file .*; copy \.farm/token from the head"):
        join.demand_private(token)
    token.touch(mode=0o640)
    with pytest.raises(FarmError, match="chmod 600"):
        join.demand_private(token)
