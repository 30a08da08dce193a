"""The scripts of SkyPilot's tasks, run with a Python that only notes what it is told."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click
import pytest

from farm.cli import main
from farm.prices import said as said_price
from tests.deploy.tools import DEPLOY, document, said
from workers.command import _parser
from workers.rented import rented

NOTE = '#!/bin/sh\nprintf "%s\\n" "$@" >"$HOME/words"\nenv >"$HOME/environment"\n'
GIVEN = {
    "gateway-worker": {"GATEWAY": "https://farm.example:8443", "CA": "a certificate", "TOKEN": "hunter2"},
    "bundle-worker": {},
    "ray-worker": {"HEAD": "10.66.0.1:6379", "TOKEN": "hunter2"},
    "head": {"CERT": "a certificate", "KEY": "hunter2"},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("kernel-farm", "venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    python.write_text(NOTE)
    python.chmod(0o755)
    return tmp_path


def run(home: Path, stem: str, **given: str) -> list[str]:
    """What the task's script tells Python, behind `-m`."""
    task = document(DEPLOY / "sky" / f"{stem}.yaml")
    declared = {name: value or "" for name, value in {**task["envs"], **task.get("secrets", {})}.items()}
    done = said("bash", "-c", task["run"], HOME=str(home), **declared | given)
    assert done.returncode == 0, done.stderr
    module, *words = (home / "words").read_text().splitlines()[1:]
    return [module, *words]


@pytest.mark.parametrize("stem", GIVEN)
def test_the_farm_knows_every_word(home: Path, stem: str) -> None:
    module, *words = run(home, stem, **GIVEN[stem])
    if module == "workers":
        _parser().parse_args(words)  # ends the test where a word is unknown
        return
    command = main.get_command(click.Context(main), words[0])
    assert command is not None
    command.make_context(words[0], words[1:])


def test_a_head_that_holds_the_database_and_a_key_runs_no_kernel(home: Path) -> None:
    assert "--no-worker" in run(home, "head", **GIVEN["head"])


@pytest.mark.parametrize("stem", [stem for stem, given in GIVEN.items() if "hunter2" in given.values()])
def test_a_secret_ends_in_a_file_of_mode_0600_and_nowhere_else(home: Path, stem: str) -> None:
    words = run(home, stem, **GIVEN[stem])
    assert "hunter2" not in " ".join(words) + (home / "environment").read_text()
    holders = [path for path in home.iterdir() if path.is_file() and "hunter2" in path.read_text()]
    assert [oct(path.stat().st_mode & 0o777) for path in holders] == ["0o600"]


def test_the_systems_authorities_are_asked_where_no_certificate_is_given(home: Path) -> None:
    assert "--ca" in run(home, "gateway-worker", **GIVEN["gateway-worker"])
    assert "--ca" not in run(home, "gateway-worker", **GIVEN["gateway-worker"] | {"CA": ""})


@pytest.mark.parametrize("stem", ["gateway-worker", "ray-worker", "bundle-worker"])
def test_a_rented_worker_is_told_its_price(home: Path, stem: str) -> None:
    run(home, stem, **GIVEN[stem], LABELS="price=0.40 USD/h,provider=vast")
    words = dict(line.partition("=")[::2] for line in (home / "environment").read_text().splitlines())
    assert said_price(rented(words)) == Fraction("0.40")


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (3, 0), (130, 0), (1, 1), (2, 1)])
def test_a_bundle_with_bad_verdicts_or_cut_short_is_no_failure(home: Path, status: int, ends: int) -> None:
    (home / "venv/bin/python").write_text(f"#!/bin/sh\nexit {status}\n")
    task = document(DEPLOY / "sky/bundle-worker.yaml")
    assert said("bash", "-c", task["run"], HOME=str(home), **task["envs"]).returncode == ends


@pytest.mark.parametrize("stem", ["gateway-worker", "bundle-worker"])
def test_a_worker_that_does_not_end_is_ended_three_minutes_later(home: Path, stem: str) -> None:
    (home / "bin").mkdir()
    (home / "bin/timeout").write_text('#!/bin/sh\nprintf "%s " "$@" >"$HOME/limit"\nexit 124\n')
    (home / "bin/timeout").chmod(0o755)
    task = document(DEPLOY / f"sky/{stem}.yaml")
    given = task["envs"] | GIVEN[stem] | {"MINUTES": "42"}
    path = f"{home}/bin:/usr/bin:/bin"
    assert said("bash", "-c", task["run"], HOME=str(home), **given | {"PATH": path}).returncode == 0
    assert (home / "limit").read_text().startswith("--signal=INT --kill-after=120 45m ")


def test_the_time_of_a_node_of_ray_is_limited(home: Path) -> None:
    (home / "venv/bin/python").write_text("#!/bin/sh\nexec sleep 60\n")
    task = document(DEPLOY / "sky/ray-worker.yaml")
    given = {
        "HEAD": "h:1",
        "MINUTES": "0.005",
        "IDLE_MINUTES": "5",
        "TOKEN": "x",
        "WIREGUARD": "",
        "LABELS": "",
    }
    assert said("bash", "-c", task["run"], HOME=str(home), **given).returncode == 0
    assert (home / "farm.token").read_text() == "x\n"
