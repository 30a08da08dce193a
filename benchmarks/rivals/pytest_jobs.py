"""Plain pytest with a JUnit file, its own start left out: prints seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import _done

TEXT = "import pytest\n@pytest.mark.parametrize('n', range({}))\ndef test_no_op(n):\n    pass\n"
TIMES = 20  # as many: starts differ by what some hundred tests take


def run(count: int) -> float:
    Path(_done.FOLDER, "test_jobs.py").write_text(TEXT.format(count))
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=report.xml", "test_jobs.py"]
    began = time.perf_counter()
    subprocess.run(command, cwd=_done.FOLDER, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    start_s = run(1)
    print((run(TIMES * _done.JOBS) - start_s) / TIMES)
