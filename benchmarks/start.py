"""`farm --help` and `farm status` from the shell: median seconds of a few turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

TURNS = 7


def main() -> None:
    farm = str(Path(sys.executable).parent / "farm")
    empty = median_s([sys.executable, "-c", ""])
    for words, limit_s in (["--help"], 0.3), (["submit", "--help"], 0.6):
        spent = median_s([farm, *words])
        print(f"farm {' '.join(words):16} {spent:.3f} s (limit {limit_s} s; an empty Python {empty:.3f} s)")


def median_s(command: list[str]) -> float:
    seconds = []
    for _ in range(TURNS):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
