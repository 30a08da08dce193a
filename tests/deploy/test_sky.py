"""SkyPilot's tasks, read by SkyPilot itself where deploy/sky/check.sh has made its environment."""

from __future__ import annotations

import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from farm.prices import ROADS, SKY_PROVIDERS, offers
from farm.rental import plan
from farm.rental_text import TASKS as PLANNED
from farm.rental_text import commands
from tests.deploy.tools import DEPLOY, ROOT, document, said
from tests.farm.test_rental import cells, offer

FOLDER = DEPLOY / "sky"
TASKS = sorted(FOLDER.glob("*.yaml"))
VENV = Path(os.environ.get("FARM_SKY_VENV", ROOT / "build/sky"))
OWN = {
    "HOME",
    "PATH",
    "FARM_STATE",
    "FARM_DB",
    "RAY_USAGE_STATS_ENABLED",
    "DEBIAN_FRONTEND",
}  # the shell's, or set there
ENDS = "autostop: {idle_minutes: 5, down: true}"
L4 = "infra: aws, accelerators: 'L4:1'"
WRONG = {  # a task's resources, and why they are refused
    "misspelt": ("accelerator: L4, max_hourly_cost: 1, autostop: 5", "did you mean 'accelerators'?"),
    "dear": (f"{L4}, {ENDS}", "without max_hourly_cost or autostop"),
    "endless": (f"{L4}, max_hourly_cost: 1", "without max_hourly_cost or autostop"),
    "unknown": (f"infra: moon, max_hourly_cost: 1, {ENDS}", "moon"),
    "spotless": (
        f"infra: lambda, accelerators: 'A10:1', use_spot: true, max_hourly_cost: 1, {ENDS}",
        "Spot instances are not supported",
    ),
    "unstoppable": (
        "infra: runpod, accelerators: 'RTX4090:1', max_hourly_cost: 1, autostop: 5",
        "Stopping not supported",
    ),
    "cheap": (f"{L4}, max_hourly_cost: 0.1, {ENDS}", "not contain any instances satisfying the request"),
}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What SkyPilot says of ours and of the wrong ones."""
    lock = FOLDER / "requirements.txt"
    if not (VENV / "lock").exists() or (VENV / "lock").read_bytes() != lock.read_bytes():
        pytest.skip(
            "no SkyPilot here, so no task was read by it: deploy/sky/check.sh installs it into build/sky"
        )
    wrong = tmp_path_factory.mktemp("wrong")
    for name, (text, _) in WRONG.items():
        (wrong / f"{name}.yaml").write_text(f"resources: {{{text}}}\nrun: 'true'\n")
    prices = wrong / "prices.toml"
    prices.write_text('[[offer]]\naccelerator = "RTX2080Ti"\nprovider = "vast"\n')
    return said(
        FOLDER / "check.sh", FOLDER, ROOT / "farm/prices.toml", wrong, prices, FARM_SKY_VENV=str(VENV)
    )


def test_skypilot_reads_every_task_also_as_farm_plan_starts_it(
    read: subprocess.CompletedProcess[str],
) -> None:
    clouds = dict(line.split(": ") for line in read.stdout.splitlines())
    assert clouds == {
        "bundle-worker.yaml": "aws, azure, gcp, lambda, runpod, vast",
        "gateway-worker.yaml": "aws, azure, gcp, lambda, runpod, vast",
        "head.yaml": "aws, azure, gcp",
        "ray-worker.yaml": "aws, azure, gcp, lambda",
        "prices.toml": str(len(offers())),
    }, read.stderr
    assert clouds["gateway-worker.yaml"].split(", ") == list(SKY_PROVIDERS)


@pytest.mark.parametrize("name", WRONG)
def test_skypilot_refuses_a_wrong_task(read: subprocess.CompletedProcess[str], name: str) -> None:
    assert read.returncode == 1
    (line,) = [line for line in read.stderr.splitlines() if line.startswith(f"{name}.yaml: ")]
    assert WRONG[name][1] in line


def test_a_board_by_another_name_than_skypilots_is_refused(read: subprocess.CompletedProcess[str]) -> None:
    assert "prices.toml: SkyPilot knows no RTX2080Ti at vast" in read.stderr


def test_farm_plan_names_tasks_that_are_there() -> None:
    assert {ROOT / path for path in PLANNED.values()} == {path for path in TASKS if path.stem != "head"}


@pytest.mark.parametrize("road", ROADS)
def test_farm_plan_gives_a_task_what_it_declares_and_no_secret_as_a_word(road: str) -> None:
    lines = commands(plan(cells("cheap", 3), {"cheap": offer("cheap", "0.10", road)}, Fraction(1)))
    (launch,) = [line for line in lines if "sky launch" in line]
    task = document(ROOT / PLANNED[road])
    given = set(re.findall(r"--env (\w+)=", launch))
    assert given <= set(task["envs"])
    assert {name for name, value in task["envs"].items() if value == ""} - given == set()
    assert "--env LABELS='price=0.1 USD/h,provider=somebody'" in launch
    secrets = set(re.findall(r"--secret (\w+)(?= )", launch))
    assert secrets == set(task.get("secrets", {}))
    assert all(f"{name}=$(cat " in launch.partition("sky launch")[0] for name in secrets)


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_task_uses_what_it_declares(path: Path) -> None:
    task = document(path)
    declared = set(task["envs"]) | set(task.get("secrets", {}))
    script = task["setup"] + task["run"]
    assert set(re.findall(r"\$\{?([A-Z][A-Z_]+)", script)) - OWN == declared - OWN


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_only_the_farm_itself_travels(path: Path) -> None:
    task = document(path)
    assert "workdir" not in task
    for name in task["file_mounts"].values():
        assert (ROOT / name).exists()
        assert name.removeprefix("./") in {"kernels", "workers", "db", "farm"} or name.endswith(".txt")
    assert "--require-hashes --no-deps" in task["setup"]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_secret_goes_into_a_file_of_its_owner_and_on_no_command_line(path: Path) -> None:
    task = document(path)
    lines = task["run"].splitlines()
    for name in set(task.get("secrets", {})) - OWN:
        uses = [line.strip() for line in lines if re.search(rf"\$\{{?{name}\b", line)]
        shell_only = re.compile(
            rf"""(printf '%s\\n' "\${name}" |\[ -n "\${name}" \]|if \[ -n "\${name}" \]; then)"""
        )
        assert uses
        assert all(shell_only.match(use) for use in uses), uses
        assert any(line.strip().startswith("unset") and name in line for line in lines)
        assert f"--secret {name}" in path.read_text()
    assert "umask 077" in lines or "secrets" not in task


@pytest.mark.parametrize("stem", ["gateway-worker", "ray-worker", "bundle-worker"])
def test_a_rented_worker_ends_by_itself(stem: str) -> None:
    task = document(FOLDER / f"{stem}.yaml")
    assert task["resources"]["autostop"]["down"] is True
    assert '"$MINUTES"' in task["run"] or '"${MINUTES}m"' in task["run"]
    if stem == "gateway-worker":
        assert '--patience-minutes 10 --idle-minutes "$IDLE_MINUTES"' in task["run"]
    if stem == "ray-worker":
        assert '--minutes 10 --idle-minutes "$IDLE_MINUTES"' in task["run"]
