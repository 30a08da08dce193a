"""The wheel holds every file of the four rooms and nothing else, and works away from the checkout."""

from __future__ import annotations

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
