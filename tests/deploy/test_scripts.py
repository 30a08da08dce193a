"""Every shell script, and every script within a SkyPilot task, has nothing that shellcheck objects to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, ROOT, document, said

SCRIPTS = [
    *sorted(DEPLOY.rglob("*.sh")),
    *sorted((ROOT / "tests/deploy").glob("*.sh")),
    ROOT / "run",
    ROOT / ".ci/run",
]
TASKS = sorted((DEPLOY / "sky").glob("*.yaml"))

needs_shellcheck = pytest.mark.skipif(
    shutil.which("shellcheck") is None,
    reason="no shellcheck here (Debian, Ubuntu: apt-get install shellcheck)",
)


@needs_shellcheck
def test_scripts_are_clean() -> None:
    found = said("shellcheck", *SCRIPTS)
    assert found.returncode == 0, found.stdout
    assert len(SCRIPTS) >= 8


@needs_shellcheck
@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_scripts_of_tasks_are_clean(path: Path) -> None:
    task = document(path)
    for part in ("setup", "run"):
        found = said("shellcheck", "--shell=bash", "-", stdin=task[part])
        assert found.returncode == 0, f"{part}: {found.stdout}"


@needs_shellcheck
def test_shellcheck_sees_a_word_that_may_fall_apart() -> None:
    found = said("shellcheck", "--shell=bash", "-", stdin="rm $1\n")
    assert found.returncode == 1
    assert "SC2086" in found.stdout


def test_scripts_can_be_run() -> None:
    assert [path for path in SCRIPTS if path != ROOT / ".ci/run" and not path.stat().st_mode & 0o100] in (
        [],
        [DEPLOY / "story.sh"],
    )
