"""A stranger's package of the name `kernels` gives one line, and its code never runs."""

import os
import subprocess
import sys
from pathlib import Path

from farm import own

FOREIGN = "raise SystemExit('the stranger ran')\n"
ROOT = Path(own.__file__).parents[1]


def test_no_complaint_when_all_are_ours() -> None:
    assert own.complaint() == ""


def start_farm(*path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    code = "from farm.cli import main; main(['--help'])"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=path[0], env=env, capture_output=True, text=True, check=False
    )


def test_a_foreign_package_that_comes_first_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text(FOREIGN)
    ended = start_farm(tmp_path, ROOT)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "another project's 'kernels'" in ended.stderr
    assert "./run" in ended.stderr


def test_a_foreign_package_written_over_ours_gives_one_line(tmp_path: Path) -> None:
    for name in ("farm", "workers", "db"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text(FOREIGN)
    ended = start_farm(tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"farm: {tmp_path / 'kernels'} is another project's")


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """Without site-packages, where a checkout's own environment finds its packages."""
    (tmp_path / "farm").symlink_to(ROOT / "farm")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-S", "-c", "from farm import own; print(own.complaint())"]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"the package 'kernels' of the kernel farm is missing beside {tmp_path / 'farm'}")
