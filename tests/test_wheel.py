"""The wheel holds every file of the four rooms and nothing else, and works away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("farm", "kernels", "workers", "db")
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy, since the build backend leaves files beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "checkout", ignore=LEFT_OUT)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(
        [*command, str(folder / "checkout")], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def files_of(room: str) -> set[str]:
    paths = (path for path in (ROOT / room).rglob("*") if path.is_file())
    names = (path.relative_to(ROOT) for path in paths)
    return {
        str(name) for name in names if not any(part.startswith((".", "__pycache__")) for part in name.parts)
    }


@pytest.mark.parametrize("room", ROOMS)
def test_wheel_holds_every_file_of_a_room(wheel: zipfile.ZipFile, room: str) -> None:
    packed = {name for name in wheel.namelist() if name.startswith(f"{room}/")}
    assert packed == files_of(room)


def test_wheel_holds_only_the_rooms(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ROOMS)


def test_rooms_import_from_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    script = f"import {', '.join(ROOMS)}\nfor room in ({', '.join(ROOMS)}): print(room.__file__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "site" / room / "__init__.py") for room in ROOMS]


def installed(wheel: zipfile.ZipFile, folder: Path) -> Path:
    """The wheel as pip installs it, into a folder of its own; gives the interpreter that finds it first."""
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel.filename)], check=True, capture_output=True)
    return target


def test_a_campaign_runs_from_the_installed_wheel_in_another_folder(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """CUDA text, the host's runtime sources and the migrations are all read from the wheel's own files."""
    environment = os.environ | {"PYTHONPATH": str(installed(wheel, tmp_path)), "PYTHONSAFEPATH": "1"}
    backend = "host" if shutil.which("g++") else "twin"
    words = [
        "submit",
        "--kind",
        "Q4_0",
        "--kernel",
        "matvec/block",
        "--backend",
        backend,
        "--local",
        "--json",
    ]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "farm", *words]
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    campaign = json.loads(done.stdout)
    assert campaign["verdicts"] == {"PASS": campaign["jobs"]}
    assert campaign["jobs"] >= 2 * 8
    assert (elsewhere / ".farm" / "farm.db").exists()
