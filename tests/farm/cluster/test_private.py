"""A campaign on the private Ray whose agent and coordinator are killed on the way, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from db.job import jobs_of
from db.session import open_existing
from farm.cluster import private, ray_home
from kernels.evidence import Verdict
from tests.farm.http2 import UNAUTHENTICATED, grpc_status, http_status

ROOT = Path(private.__file__).parents[2]
SUBMIT = ("submit", "--op", "matvec", "--backend", "twin", "--json")
# One call of every service that a Ray 2.60 node has; a server that lacks it says 12, unimplemented.
CALLS = (
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.CoreWorkerService/PushTask",
    "/ray.rpc.ObjectManagerService/Push",
)
REFUSED = {UNAUTHENTICATED, 401, 403}
AGENT_CALL = "/get_or_create_runtime_env"  # the one HTTP server

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@dataclass
class Story:
    """What was seen while a campaign ran, and how it ended."""

    folder: Path
    pids: set[int] = field(default_factory=set)
    answers: dict[str, dict[int, list[int]]] = field(default_factory=dict)  # by token, port: statuses
    out: str = ""
    err: str = ""
    code: int = -1


def named(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    return ""


def wait_for(process: subprocess.Popen[str], name: str, folder: Path, besides: int = 0) -> int:
    """The id of the descendant of that name, another one than `besides`, once a job has its verdict."""
    while process.poll() is None:
        found = [
            pid for pid in ray_home.descendants(process.pid) if named(pid).startswith(name) and pid != besides
        ]
        if found and count_done(folder):
            return found[0]
    raise AssertionError(process.communicate()[1])


def count_done(folder: Path) -> int:
    database = open_existing(f"sqlite:///{folder}/.farm/farm.db")
    with database.reading() as s:
        found = s.exec_driver_sql("SELECT count(*) FROM job WHERE state = 'done'").scalar()
    database.close()
    return int(found or 0)


def knock(ports: tuple[int, ...], token: str) -> dict[int, list[int]]:
    """Every port's answers to every call; those that aren't there at all are left out."""
    address = ray_home.own_address()
    return {
        port: [
            status
            for status in (
                *(grpc_status(address, port, path, token) for path in CALLS),
                http_status(address, port, AGENT_CALL, token),
            )
            if status is not None
        ]
        for port in ports
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(tmp_path_factory.mktemp("cluster"))
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAY_ADDRESS": "192.0.2.9:6379",
        "RAY_AUTH_MODE": "disabled",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "farm", *SUBMIT], cwd=story.folder, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        for name in ("ray::RayAgent", "ray::CoordinatorActor"):
            victim = wait_for(process, name, story.folder)
            os.kill(victim, signal.SIGKILL)
            wait_for(process, name, story.folder, besides=victim)
        token = (story.folder / ".farm" / "token").read_text()
        ports = ray_home.listening_ports(process.pid)
        story.pids = set(ray_home.descendants(process.pid))
        story.answers = {
            name: knock(ports, t) for name, t in (("none", ""), ("wrong", "0" * 64), ("right", token))
        }
        story.out, story.err = process.communicate()
        story.code = process.returncode
    finally:
        process.kill()
    return story


def test_every_job_has_one_verdict_after_its_agent_and_coordinator_were_killed(story: Story) -> None:
    assert story.code == 0, story.err
    database = open_existing(f"sqlite:///{story.folder}/.farm/farm.db")
    with database.reading() as s:
        jobs = jobs_of(s, 1)
        epochs = s.exec_driver_sql("SELECT epoch FROM epoch").scalar()
    database.close()
    assert {job.verdict for job in jobs} == {Verdict.PASS}
    assert json.loads(story.out)["verdicts"] == {"PASS": len(jobs)}
    assert epochs >= 3  # taken over, started, and started again


def test_the_user_reads_lines_and_no_traceback(story: Story) -> None:
    assert "the agent of cpu-" in story.err
    assert "another one takes its place" in story.err
    assert [line for line in story.err.splitlines() if not line.startswith(("farm: ", "campaign 1 "))] == []


def test_the_token_is_its_owners_alone(story: Story) -> None:
    assert stat.S_IMODE((story.folder / ".farm" / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize("token", ["none", "wrong"])
def test_every_port_refuses_a_client_without_the_token(token: str, story: Story) -> None:
    answers = story.answers[token]
    assert len(answers) >= 5  # GCS, raylet twice, driver, coordinator, agent, runtime environments
    for port, statuses in answers.items():
        assert REFUSED & set(statuses), f"port {port} said {statuses}"
        assert not {0, 200} & set(statuses), f"port {port} said {statuses}"


def test_the_same_calls_with_the_token_are_let_in(story: Story) -> None:
    statuses = {status for answers in story.answers["right"].values() for status in answers}
    assert not REFUSED & statuses
    assert statuses


def test_the_ports_are_told(story: Story) -> None:
    told = next(line for line in story.err.splitlines() if "ports" in line)
    assert "token" in told
    assert any(str(port) in told for port in story.answers["none"])


def test_nothing_is_left_running(story: Story) -> None:
    assert len(story.pids) >= 6
    assert not [pid for pid in story.pids if named(pid)]


def test_one_line_of_a_remote_error_has_no_traceback() -> None:
    class Remote(Exception):
        cause = ValueError("first\nTraceback of another process\nlast")

    assert private.one_line(Remote("x")) == "ValueError: last"
