"""farm devices: this machine's backends with the reason where one can't run, and the database's boards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from tests.farm.lines import database_with, line_of
from workers.machine import cpu_device


def devices(url: str, *args: str) -> Result:
    return CliRunner().invoke(main, ["devices", "--db", url, *args])


def test_this_machine_and_the_database_are_both_listed(tmp_path: Path) -> None:
    document = json.loads(devices(database_with(tmp_path, [line_of()]), "--json").stdout)
    (here,) = (board for board in document["here"] if board["slug"] == cpu_device().slug)
    assert "twin" in here["backends"]
    assert [board["slug"] for board in document["known"]] == ["cpu-x86_64-aaaa"]


def test_the_table_says_the_same(tmp_path: Path) -> None:
    text = devices(database_with(tmp_path, [line_of()])).stdout
    assert cpu_device().slug in text
    assert "Test CPU" in text


def test_a_backend_that_cannot_run_says_why_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    url = f"sqlite:///{tmp_path / 'none.db'}"
    text = devices(url).stdout
    assert text.count("host is unavailable because ") == 1
    here = json.loads(devices(url, "--json").stdout)["here"]
    assert here
    assert not any("host" in board["backends"] for board in here)


def test_without_a_database_this_machine_is_still_shown(tmp_path: Path) -> None:
    result = devices(f"sqlite:///{tmp_path / 'none.db'}")
    assert result.exit_code == 0
    assert cpu_device().slug in result.stdout
    assert "no database at" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_board_is_set_aside_and_readmitted_by_name(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of()])
    aside = devices(url, "--set-aside", "cpu-x86_64-aaaa")
    assert (aside.exit_code, aside.stderr) == (
        0, "cpu-x86_64-aaaa is set aside: 1 lines suspect, 0 jobs run again\n",
    )  # fmt: skip
    back = devices(url, "--readmit", "cpu-x86_64-aaaa")
    assert (back.exit_code, back.stderr) == (0, "cpu-x86_64-aaaa may work again, after an exam\n")
    for words, says in (
        (("--readmit", "cpu-x86_64-aaaa"), "board 'cpu-x86_64-aaaa' isn't set aside; those that are: none"),
        (("--set-aside", "nothing"), "no board named 'nothing'; there are cpu-x86_64-aaaa"),
    ):
        wrong = devices(url, *words)
        assert (wrong.exit_code, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
        assert says in wrong.stderr
