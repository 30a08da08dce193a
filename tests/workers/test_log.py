"""What is logged, by whom it can be read, and what never is."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workers import log
from workers.log import HIDDEN, Scrubber, writing_to

LOG = logging.getLogger("farm.tried")
PASSWORD = "tr0ub4dor&3/x y"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    return tmp_path


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf8").splitlines())


def test_a_line_is_json_in_the_state_folder_and_short_for_people(home: Path) -> None:
    people = io.StringIO()
    with writing_to("tried", people=people) as path:
        LOG.info(
            "started",
            extra={
                "_of_a_library": 1,
                "job": 7,
                "device": "cpu-0",
                "jobs": [1, 2, 3, 4],
                "nan": float("nan"),
            },
        )
    assert path == home / "log" / "tried.jsonl"
    (line,) = lines_of(path)
    assert (line["event"], line["logger"], line["level"]) == ("started", "tried", "info")
    assert (line["job"], line["device"], line["jobs"], line["nan"]) == (7, "cpu-0", [1, 2, 3, 4], "nan")
    assert people.getvalue() == "farm: started, job=7, device=cpu-0, jobs=1…4 (4), nan=nan\n"


def test_nothing_is_written_or_said_behind_the_block(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with writing_to("tried") as path:
        pass
    LOG.warning("unheard")
    assert not path.exists()
    assert capfd.readouterr() == ("", "")


def test_a_file_is_its_owners_alone_and_is_turned_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_BYTES", 400)
    with writing_to("tried") as path:
        for number in range(30):
            LOG.info("started", extra={"job": number})
    names = sorted(one.name for one in path.parent.iterdir())
    assert names == ["tried.jsonl", *(f"tried.jsonl.{n}" for n in range(1, log.KEPT + 1))]
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    assert [line["job"] for line in lines_of(path)][-1] == 29


@pytest.mark.parametrize(
    "told",
    [
        f"postgresql+psycopg://farm:{PASSWORD}@db.example/farm is away",
        "postgresql://farm:s3cr3t@db.example/farm",
        "postgresql://db.example/farm?user=farm&password=s3cr3t&sslmode=require",
        "password: s3cr3t",
        "Authorization: Bearer s3cr3t-s3cr3t",
        "worker said farm_s3cr3t_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "tr0ub4dor%263%2Fx%20y in an address",
        "tr0ub4dor%263%2Fx+y in a form",
    ],
)
def test_a_secret_is_never_written(told: str, home: Path) -> None:
    people = io.StringIO()
    with writing_to("tried", people=people, secrets=[PASSWORD, ""]) as path:
        LOG.info(told, extra={"about": told, "many": [told], "object": Path(told), "of": {"deep": told}})
        try:
            raise ValueError(told)
        except ValueError:
            LOG.exception("failed")
    written = path.read_text(encoding="utf8") + people.getvalue()
    for secret in ("s3cr3t", "tr0ub4dor"):
        assert secret not in written
    assert written.count(HIDDEN) >= 12


@pytest.mark.parametrize("name", ["token", "web_token", "password", "Authorization", "client_secret"])
def test_a_field_with_a_secrets_name_is_hidden_whatever_it_holds(name: str) -> None:
    assert Scrubber().value(name, 12345) == HIDDEN


def test_digests_and_addresses_without_a_password_stay_readable() -> None:
    for told in ("5" * 64, "http://10.0.0.5:8443", "sqlite:////home/x/farm.db", "postgresql://u@h:5432/farm"):
        assert Scrubber().text(told) == told


def test_what_steers_a_terminal_is_shown_as_its_code(home: Path) -> None:
    people = io.StringIO()
    with writing_to("tried", people=people) as path:
        LOG.info("bad\x1b[2J\nfarm: forged", extra={"device": "cpu\n"})
    assert people.getvalue() == "farm: bad\\x1b[2J\\x0afarm: forged, device=cpu\\x0a\n"
    assert len(path.read_text(encoding="utf8").splitlines()) == 1


def test_a_log_that_cannot_be_written_is_said_once_and_stops_nothing(home: Path) -> None:
    people = io.StringIO()
    (home / "log").mkdir()
    (home / "log" / "tried.jsonl").mkdir()
    with writing_to("tried", people=people):
        LOG.info("first")
        LOG.info("second")
    said = people.getvalue().splitlines()
    assert [line for line in said if "can't be written" in line] == [said[0]]
    assert said[1:] == ["farm: first", "farm: second"]


def test_a_folder_that_cannot_be_had_costs_the_file_alone(home: Path) -> None:
    (home / "log").write_text("no folder")
    people = io.StringIO()
    with writing_to("tried", people=people):
        LOG.info("first")
    assert people.getvalue().splitlines()[-1] == "farm: first"
    assert "no log in" in people.getvalue()


def test_a_worker_needs_the_standard_library_alone() -> None:
    code = "import sys; sys.modules['structlog'] = None; import workers.log, workers.agent"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=dict(os.environ), timeout=60)
    assert done.returncode == 0
