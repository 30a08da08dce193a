"""`farm --help` and `farm status` from the shell: median seconds of a few turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = 7


def main() -> None:
    farm = str(Path(sys.executable).parent / "farm")
    empty = median_s([sys.executable, "-c", ""])
    print(f"an empty Python    {empty:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/farm.db"
        subprocess.run([farm, "submit", "--kind", "Q4_0", "--kernel", "matvec/block", "--backend", "twin",
                        "--local", "--db", database], capture_output=True, check=True)  # fmt: skip
        for words, limit_s in (["--help"], 0.3), (["status", "--db", database], 1.0):
            print(f"farm {words[0]:13} {median_s([farm, *words]):.3f} s (limit {limit_s} s)")


def median_s(command: list[str]) -> float:
    seconds = []
    for _ in range(TURNS):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
