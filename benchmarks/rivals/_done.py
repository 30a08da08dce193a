"""Counts jobs that are done: every job appends its time to a file, and whoever waits reads that."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = os.environ["RIVAL_FOLDER"]
JOBS = int(os.environ["RIVAL_JOBS"])
DONE = Path(FOLDER) / "done"
GIVE_UP_S = 300.0


def note() -> None:
    with DONE.open("ab", buffering=0) as file:
        file.write(struct.pack("d", time.time()))


@contextmanager
def running(*words: str, count: int = 1) -> Iterator[None]:
    """Some processes of a module of this Python, until the block ends."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen([sys.executable, "-m", *words], **quiet) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def seconds() -> float:
    """From the first job's end to the last one's."""
    until = time.time() + GIVE_UP_S
    while not DONE.exists() or DONE.stat().st_size < 8 * JOBS:
        if time.time() > until:
            raise SystemExit(f"{JOBS} jobs took more than {GIVE_UP_S:g} s")
        time.sleep(0.02)
    times = struct.unpack(f"{JOBS}d", DONE.read_bytes()[: 8 * JOBS])
    return max(times) - min(times)
