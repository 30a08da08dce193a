"""farm status: campaigns, devices and the matrix, and never a new database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from db import campaign
from db.job import PlannedCase, Target
from db.session import open_database
from farm.cli import main
from farm.cli.status import say_address
from kernels.evidence import Rule, Verdict
from tests.farm.lines import case_of, database_with, line_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = database_with(tmp_path, [line_of(), line_of(Verdict.FAIL, case_of("Q4_K"))])
    planned = [PlannedCase(case_of(), 1, "", ""), PlannedCase(case_of("Q4_K"), 1, "", "")]
    with open_database(made).writing() as s:
        campaign.create(
            s,
            selection='{"kinds": ["Q4_0"]}',
            rule=Rule.BOUND,
            planned=planned,
            targets=[Target("host", "cpu-x86_64")],
            now_us=1_000_000,
        )
    return made


def status(url: str, *args: str) -> Result:
    return CliRunner().invoke(main, ["status", "--db", url, *args])


def test_status_shows_campaigns_devices_and_the_matrix(url: str) -> None:
    result = status(url)
    assert result.exit_code == 0
    assert "campaign 1: 2 jobs in " in result.stdout
    assert "(0%, open; farm resume 1 goes on with it)" in result.stdout
    assert "Test CPU" in result.stdout
    assert "cpu-x86_64/host, build exact: 1 FAIL, 1 PASS, " in result.stdout


def test_status_as_json_has_the_same_three(url: str) -> None:
    document = json.loads(status(url, "--json").stdout)
    (row,) = document["campaigns"]
    assert (row["id"], row["open"], row["jobs"], row["done"]) == (1, True, 2, 0)
    assert (row["created_at"], row["closed_at"]) == ("1970-01-01T00:00:01Z", None)
    assert row["selection"] == {"kinds": ["Q4_0"]}
    assert [board["slug"] for board in document["devices"]] == ["cpu-x86_64-aaaa"]
    verdicts = [cell["verdict"] for cell in document["matrix"]["cells"] if cell["backend"] == "host"]
    assert (verdicts.count("PASS"), verdicts.count("FAIL")) == (1, 1)
    assert verdicts.count(None) == len(verdicts) - 2


def test_a_pipe_gets_no_blanks_at_the_ends_of_lines_and_survives_ascii(url: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in (["status"], ["export"], ["show", "h200/cuda/matvec/block/Q4_0"]):
        ended = subprocess.run(
            [sys.executable, "-m", "farm", *command, "--db", url], capture_output=True, check=True, env=env
        )
        assert ended.stderr == b""
        assert not [line for line in ended.stdout.split(b"\n") if line.endswith(b" ")]
    assert b"\\xb7" in ended.stdout


def test_device_narrows_the_matrix(url: str) -> None:
    assert "GPUs that no board fills" not in status(url, "--device", "cpu-*").stdout
    assert status(url, "--device", "tpu").exit_code == 2


def test_status_without_a_database_makes_none(tmp_path: Path) -> None:
    result = status(f"sqlite:///{tmp_path / 'sub' / 'none.db'}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "farm submit" in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_dashboards_token_is_named_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_STATE", "/farm/state")
    say_address("https://0.0.0.0:8765/")
    assert "want the token in /farm/state/web.token" in capsys.readouterr().err
