"""deploy/local.sh from end to end: PostgreSQL, head, gateway, dashboard, a worker, and a day's commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCAL, STORY = ROOT / "deploy" / "local.sh", ROOT / "deploy" / "story.sh"

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl; apt-get install openssl"),
]


def run_local(home: Path, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """local.sh with a command, by this very Python and with the twin, which compiles nothing."""
    mine = {"FARM_LOCAL": str(home), "FARM_PYTHON": sys.executable, "FARM_BACKEND": "twin"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return subprocess.run(
        [LOCAL, *command],
        cwd=home.parent,
        env=kept | mine | environ,
        capture_output=True,
        text=True,
        timeout=500,
    )


def processes_in(folder: Path) -> list[str]:
    """What still runs there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.joinpath("cwd").resolve().is_relative_to(folder):
                found.append(entry.joinpath("cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_day_of_a_farm(tmp_path: Path) -> None:
    home = tmp_path / "farm"
    ended = run_local(home, STORY)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert ended.stdout.endswith("story: done\n")
    assert "story: the dashboard knows 1 campaigns" in ended.stdout
    workers = re.findall(r"^story: worker (\S+) passed (\d+) cases, (\w+)$", ended.stdout, re.MULTILINE)
    assert len({worker for worker, _, _ in workers}) == 2, workers
    assert {trust for _, passed, trust in workers if int(passed)} == {"own", "rented"}  # Ray's, the gateway's
    said = ended.stdout + ended.stderr
    assert "1 regions in 1 files, 0 claims without evidence" in said
    assert " new, 0 were here already" in said
    assert (home / "matrix.md").stat().st_size > 1000
    assert (home / "matrix.html").stat().st_size > 1000
    assert (home / "gateway.key").stat().st_mode & 0o077 == 0
    assert processes_in(home) == []


def test_a_wrong_python_is_one_line(tmp_path: Path) -> None:
    refused = run_local(tmp_path / "farm", "true", FARM_PYTHON="/nowhere/python")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "no Python at /nowhere/python" in refused.stderr
