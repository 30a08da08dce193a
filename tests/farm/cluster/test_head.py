"""A head and a machine that joins it, whose parts are killed one after another, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from db.campaign import campaigns
from db.session import open_existing
from farm.cluster import private, ray_home
from workers.machine import cpu_device

ROOT = Path(private.__file__).parents[2]
SUBMIT = ("submit", "--op", "silu_mul", "--backend", "twin", "--json")
WAIT_S = 120.0
AGENT = b"ray::RayAgent"  # as Ray names an agent's process

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Story:
    """What was seen, step by step."""

    folder: Path
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    left: dict[str, list[int]] = field(default_factory=dict)  # processes that outlived an end
    joined: str = ""
    command_lines: bytes = b""  # of all processes of the head, as anybody on the machine can read them
    agents_at: list[str] = field(default_factory=list)  # who had one, the head working on nothing itself

    def farm(self, step: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        self.said[step] = subprocess.run(
            [sys.executable, "-m", "farm", *words],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environ,
            capture_output=True,
            text=True,
            timeout=240,
        )
        return self.said[step]

    @property
    def head(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / ".farm" / "head.json").read_text())
        return found

    def log(self) -> str:
        return (self.folder / ".farm" / "head.log").read_text(errors="replace")


def wait_until(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.5)


def alive(pids: list[int]) -> list[int]:
    """Those that still run; a zombie doesn't."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def command_lines(pid: int) -> bytes:
    """Those of a process and all below it."""
    found = b""
    for each in ray_home.descendants(pid):
        with suppress(OSError):  # it may have ended meanwhile
            found += Path(f"/proc/{each}/cmdline").read_bytes()
    return found


def ray_start(head: int) -> int:
    """The process `ray start --head` below a supervisor."""
    for pid in ray_home.descendants(head):
        if b"--head" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"no ray start below {head}")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    story = Story(tmp_path_factory.mktemp("head"))
    member = None
    try:
        story.farm("up", "up", "--port", "0", "--backend", "twin", "--gateway", "127.0.0.1:0")
        assert story.said["up"].returncode == 0, story.said["up"].stderr + story.log()
        for name in ("token", "head.json"):
            story.modes[name] = stat.S_IMODE((story.folder / ".farm" / name).stat().st_mode)
        story.command_lines = command_lines(int(str(story.head["pid"])))
        story.farm("again", "up", "--port", "0")
        address = str(story.head["address"])
        tokens = tokens_of(story)
        for name in ("wrong", "open", "missing"):
            story.farm(name, "join", address, "--token-file", str(tokens[name]))
        member = join(story, address, tokens["right"])
        story.farm("first", *SUBMIT)
        kill_ray(story, member)
        story.farm("second", *SUBMIT, "--family", "tiny")
        pull(story)
        kill_supervisor(story)
        story.farm("orphan", *SUBMIT, "--family", "onehot", "--detach")
        story.farm("up again", "up", "--port", address.rpartition(":")[2], "--backend", "twin", "--no-worker")
        story.farm("third", "resume", "--json")
        end(story, member)
        yield story
    finally:
        if member is not None and member.poll() is None:
            member.kill()
            member.wait()
        if (story.folder / ".farm" / "head.json").exists():
            story.farm("cleanup", "down")


def tokens_of(story: Story) -> dict[str, Path]:
    right = story.folder / "right.token"
    right.write_text((story.folder / ".farm" / "token").read_text())
    wrong = story.folder / "wrong.token"
    wrong.write_text("0" * 64)
    public = story.folder / "open.token"
    public.write_text("0" * 64)
    for path, mode in ((right, 0o600), (wrong, 0o600), (public, 0o644)):
        path.chmod(mode)
    return {"right": right, "wrong": wrong, "open": public, "missing": story.folder / "nowhere"}


def join(story: Story, address: str, token: Path) -> subprocess.Popen[bytes]:
    folder = story.folder / "member"
    folder.mkdir()
    with (folder / "said").open("w") as said:
        member = subprocess.Popen(
            [sys.executable, "-m", "farm", "join", address, "--token-file", str(token)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stderr=said,
        )
    wait_until(lambda: times_joined(story) == 1, "joined")
    return member


def times_joined(story: Story) -> int:
    return (story.folder / "member" / "said").read_text().count("farm: joined")


def kill_ray(story: Story, member: subprocess.Popen[bytes]) -> None:
    """Ray's head dies with all below it; the supervisor stays."""
    pid = ray_start(int(str(story.head["pid"])))
    below = ray_home.of_session(pid)
    ups = story.log().count("head at")
    for each in below:
        with suppress(ProcessLookupError):  # it ended with the one before
            os.kill(each, signal.SIGKILL)
    wait_until(lambda: story.log().count("head at") > ups, "another Ray")
    wait_until(lambda: times_joined(story) == 2, "joined again")
    story.left["ray"] = alive(below)


def pull(story: Story) -> None:
    """A worker that isn't in Ray works for the same coordinator, after Ray was lost once."""
    token = story.folder / "worker.token"
    # The head works on this board too: what is the farm's own wants a token that names it.
    token.write_text(story.farm("token", "token", "new", "worker", "--device", cpu_device().slug).stdout)
    token.chmod(0o600)
    words = (str(story.head["gateway"]), "--token-file", str(token), "--backend", "twin", "--drain")
    story.said["pull"] = subprocess.run(
        [sys.executable, "-m", "workers", "pull", *words],
        cwd=story.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "FARM_STATE": str(story.folder / "puller")},
        capture_output=True,
        text=True,
        timeout=240,
    )


def kill_supervisor(story: Story) -> None:
    pid = int(str(story.head["pid"]))
    below = [each for each in ray_home.descendants(pid) if each != pid]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(below), f"{len(below)} processes below a killed head end")


def end(story: Story, member: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: times_joined(story) == 3, "joined once more")
    head = int(str(story.head["pid"]))
    places = {"head": head, "member": member.pid}
    story.agents_at = [name for name, pid in places.items() if AGENT in command_lines(pid)]
    below = [*ray_home.descendants(head), *ray_home.descendants(member.pid)]
    story.farm("down", "down")
    member.send_signal(signal.SIGINT)
    story.said["member"] = subprocess.CompletedProcess((), member.wait(60))
    story.left["end"] = alive(below)
    story.farm("down again", "down")


def verdicts(said: subprocess.CompletedProcess[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(said.stdout)["verdicts"]
    return found


def test_the_head_says_where_it_is_and_what_is_open(story: Story) -> None:
    said = story.said["up"].stderr
    assert "farm: head at " in said
    assert "farm join " in said
    assert "Ray listens on every interface, ports " in said
    assert story.modes == {"token": 0o600, "head.json": 0o600}


def test_no_command_line_has_the_token(story: Story) -> None:
    token = (story.folder / ".farm" / "token").read_bytes().strip()
    assert len(token) == 64
    assert b"farm.cluster.driver" in story.command_lines
    assert token not in story.command_lines
    assert token.decode() not in story.log()


def test_a_second_head_is_refused(story: Story) -> None:
    assert story.said["again"].returncode == 1
    assert "a head runs here already" in story.said["again"].stderr


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("wrong", "refuses the token in"),
        ("open", "has mode 644 and can be read by others; chmod 600"),
        ("missing", "copy .farm/token from the head"),
    ],
)
def test_a_wrong_token_joins_nothing(story: Story, step: str, why: str) -> None:
    said = story.said[step]
    assert (said.returncode, said.stderr.count("\n")) == (1, 1), said.stderr
    assert why in said.stderr


@pytest.mark.parametrize("step", ["first", "second", "third"])
def test_every_campaign_ends_with_its_verdicts_whatever_was_killed(story: Story, step: str) -> None:
    said = story.said[step]
    assert said.returncode == 0, said.stderr
    assert set(verdicts(said)) == {"PASS"}
    assert "is run by the head at" in said.stderr


def test_a_worker_comes_in_by_the_heads_own_gateway(story: Story) -> None:
    assert "farm: gateway at http://127.0.0.1:" in story.said["up"].stderr
    assert story.said["pull"].returncode == 0, story.said["pull"].stderr
    assert story.said["pull"].stderr.endswith("\nworkers: 3 cases ran\n")  # its exam; nothing else was left


def test_a_head_without_a_worker_runs_nothing_itself(story: Story) -> None:
    assert story.agents_at == ["member"]


def test_no_job_is_without_a_verdict_in_the_database(story: Story) -> None:
    with open_existing(f"sqlite:///{story.folder}/.farm/farm.db").reading() as s:
        rows = campaigns(s)
    assert [(row.is_open, row.bad, row.done == row.jobs > 0) for row in rows] == [(False, 0, True)] * 3


def test_nothing_of_a_killed_or_ended_ray_is_left(story: Story) -> None:
    assert story.left == {"ray": [], "end": []}


def test_down_ends_the_head_and_says_when_there_is_none(story: Story) -> None:
    assert story.said["down"].returncode == 0
    assert story.said["member"].returncode == 0
    assert story.said["down again"].returncode == 1
    assert "no head runs in" in story.said["down again"].stderr
