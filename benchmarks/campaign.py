"""The default campaign, cold and warm, in a folder of its own: seconds, jobs, memory of its processes."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

WARM_TURNS = 3
POLL_S = 0.2


@dataclass(frozen=True)
class Turn:
    """One campaign from command to exit."""

    seconds: float
    peak_mib: float  # largest sum of proportional set sizes seen
    exit_code: int


def main() -> None:
    farm = Path(sys.executable).parent / "farm"
    folder = Path(tempfile.mkdtemp(prefix="farm-bench-"))
    try:
        cold = campaign(farm, folder)
        warm = [campaign(farm, folder) for _ in range(WARM_TURNS)]
        jobs = status(farm, folder)
    finally:
        shutil.rmtree(folder)
    print(f"jobs in a campaign: {jobs}")
    print(
        f"cold: {cold.seconds:.1f} s, peak {cold.peak_mib:.0f} MiB, exit {cold.exit_code} (120 s, 3072 MiB)"
    )
    seconds = statistics.median(turn.seconds for turn in warm)
    peak = max(turn.peak_mib for turn in warm)
    codes = sorted({turn.exit_code for turn in warm})
    print(f"warm: median {seconds:.1f} s of {WARM_TURNS}, peak {peak:.0f} MiB, exits {codes} (limit 60 s)")


def campaign(farm: Path, folder: Path) -> Turn:
    """Runs `farm submit --all-kinds` in `folder` and watches the memory of its process tree."""
    began = time.monotonic()
    process = subprocess.Popen(
        [farm, "submit", "--all-kinds"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peaks = [0.0]
    watcher = threading.Thread(target=watch, args=(process, peaks))
    watcher.start()
    code = process.wait()
    seconds = time.monotonic() - began
    watcher.join()
    return Turn(seconds, max(peaks), code)


def watch(process: subprocess.Popen[bytes], peaks: list[float]) -> None:
    while process.poll() is None:
        peaks.append(sum(pss_mib(pid) for pid in tree(process.pid)))
        time.sleep(POLL_S)


def tree(root: int) -> set[int]:
    """The process and everything below it, with what started a session of its own but kept its parent."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # gone between listing and reading
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def pss_mib(pid: int) -> float:
    """Memory of one process, shared pages divided among those that share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # gone, or not ours
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def status(farm: Path, folder: Path) -> int:
    """Jobs of the newest campaign, as the program tells."""
    told = subprocess.run(
        [farm, "status", "--json"], cwd=folder, capture_output=True, check=True, env={**os.environ}
    )
    return max(campaign["jobs"] for campaign in json.loads(told.stdout)["campaigns"])
