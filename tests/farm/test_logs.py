"""farm logs: what several processes wrote, as one stream, cut down and followed over files that turn over."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from farm import logs as reading
from farm.log import logger
from farm.logs import Logs, Wanted
from kernels.errors import UsageError
from workers.log import log_folder, writing_to

ROOT = Path(__file__).parents[2]
NOON = "2026-11-30T12:00:00.000+00:00"


def at(second: int, **fields: object) -> str:
    when = datetime.fromtimestamp(1_796_040_000 + second, UTC).isoformat(timespec="milliseconds")
    return (
        json.dumps({"at": when, "level": "info", "logger": "tried", "pid": 1, "event": "e"} | fields) + "\n"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder's log, with lines of two processes; one file was turned over."""
    monkeypatch.setenv("FARM_STATE", str(tmp_path / ".farm"))
    made = log_folder()
    made.mkdir(parents=True)
    texts = {
        "coordinator.jsonl.1": (at(1, event="began"), at(3, event="leased", campaign=1, jobs=[4, 5])),
        "coordinator.jsonl": (at(7, event="missed", job=4, campaign=1, device="cpu-0"),),
        "agent-cpu-0.jsonl": (
            at(2, event="accepted", device="cpu-0"),
            '{"at": 5}\n\xff{\n',
            at(5, event="ran", job=5, device="cpu-0"),
        ),
    }
    for name, lines in texts.items():
        (made / name).write_text("".join(lines))
    return made


def test_lines_of_all_processes_come_in_the_order_of_time(farm: Callable[..., Result], folder: Path) -> None:
    result = farm("logs")
    assert result.exit_code == 0
    told = result.stdout.splitlines()
    assert [line.split()[3] for line in told] == ["began", "accepted", "leased", "ran", "missed"]
    assert told[2].endswith("leased  campaign=1 jobs=4,5")
    assert "2 lines can't be read" in result.stderr


@pytest.mark.parametrize(
    ("words", "events"),
    [
        (["--campaign", "1"], ["leased", "missed"]),
        (["--job", "4"], ["leased", "missed"]),
        (["--job", "5", "--device", "cpu-0"], ["ran"]),
        (["--device", "cpu-0"], ["accepted", "ran", "missed"]),
    ],
)
def test_only_what_was_asked_for_is_shown(
    words: list[str], events: list[str], farm: Callable[..., Result], folder: Path
) -> None:
    shown = farm("logs", "--json", *words).stdout.splitlines()
    assert [json.loads(line)["event"] for line in shown] == events


def test_since_counts_back_from_now() -> None:
    now = datetime.fromisoformat(NOON)
    assert reading.since("90s", now) == "2026-11-30T11:58:30.000+00:00"
    assert reading.since("2d", now) == "2026-11-28T12:00:00.000+00:00"
    line = {"at": "2026-11-30T11:59:00.000+00:00"}
    assert Wanted(since=reading.since("1m", now)).takes(line)
    assert not Wanted(since=reading.since("59s", now)).takes(line)
    for wrong in ("", "1", "h", "1w", "-1h", "1h ", "1" * 9 + "d"):
        with pytest.raises(UsageError, match="write 90s, 30m, 1h or 2d"):
            reading.since(wrong, now)


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 1, "no log in"),
        (["--since", "soon"], 2, "--since 'soon'"),
        (["--since", "999999d"], 2, "--since 999999d: no calendar goes back that far"),
        (["--job", "x"], 2, "'x' is not a valid integer"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    words: list[str], code: int, complaint: str, farm: Callable[..., Result]
) -> None:
    result = farm("logs", *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert complaint in result.stderr


def test_a_log_without_such_a_line_says_so(farm: Callable[..., Result], folder: Path) -> None:
    result = farm("logs", "--job", "99")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "none of 7 lines in" in result.stderr


def test_new_lines_are_read_once_over_files_that_turn_over(folder: Path) -> None:
    found = Logs(folder)
    assert len(list(found.new())) == 5
    current = folder / "coordinator.jsonl"
    with current.open("a") as file:
        file.write(at(8, event="before") + at(9, event="cut")[:20])
    assert [line["event"] for _, line in found.new()] == ["before"]
    with current.open("a") as file:
        file.write(at(9, event="cut")[20:])
    os.replace(current, folder / "coordinator.jsonl.1")
    current.write_text(at(10, event="after"))
    assert [line["event"] for _, line in found.new()] == ["cut", "after"]
    assert list(found.new()) == []


def test_what_a_line_says_does_not_steer_the_terminal(farm: Callable[..., Result], folder: Path) -> None:
    (folder / "x.jsonl").write_text(at(20, event="\x1b[2J", device="a\nb"))
    assert "\\x1b[2J  device=a\\x0ab\n" in farm("logs").stdout


def test_a_line_whose_words_are_no_texts_is_shown_all_the_same() -> None:
    line = {"at": "2026-11-30T12:00:00.000+00:00", "level": {"a": 1}, "logger": None, "event": ["x", 2]}
    assert reading.for_people(line) == "2026-11-30T12:00:00.000 {'a': 1} None        x,2"


def test_what_is_bound_is_in_every_line_and_goes_with_its_logger(tmp_path: Path) -> None:
    with writing_to("tried", folder=tmp_path) as path:
        bound = logger("head", campaign=3)
        bound.bind(device="cpu-0").warning("first", job=4)
        bound.info("second")
        logging.getLogger("farm.head").info("third")
    first, second, third = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["campaign"], first["device"], first["job"], first["level"]) == (3, "cpu-0", 4, "warning")
    assert (second["campaign"], "device" in second, "campaign" in third) == (3, False, False)
    assert {line["logger"] for line in (first, second, third)} == {"head"}


def test_a_campaign_of_this_machine_leaves_a_log(farm: Callable[..., Result]) -> None:
    words = ("--kernel", "rmsnorm/block", "--backend", "twin", "--shape", "8", "--local")
    assert farm("submit", *words).exit_code == 0
    lines = [json.loads(line) for line in farm("logs", "--json", "--job", "1").stdout.splitlines()]
    events = [line["event"] for line in lines]
    assert events[0] == "leased"
    assert {"started", "ran", "completed"} <= set(events)
    assert {line["campaign"] for line in lines} == {1}


def test_following_prints_what_is_written_until_it_is_interrupted(folder: Path) -> None:
    command = [sys.executable, "-m", "farm", "logs", "--follow", "--job", "7"]
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        for number in range(2):
            with (folder / "x.jsonl").open("a") as file:
                file.write(at(30 + number, event=f"event-{number}", job=7))
            assert f"event-{number}" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 0
