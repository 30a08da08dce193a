"""A node of Ray as one process of ours with all its own below it: it ends when we say so, or end."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from farm.cluster import ray_home
from farm.cluster.ray_ports import node_ports, port_words
from kernels.errors import FarmError

OBJECT_STORE_BYTES = 80 << 20  # Ray wants 75 MiB; messages are small and don't go through it
START_S = 90.0
GLANCE_S = 0.2
STOP_S = 15.0
PR_SET_PDEATHSIG = 1

# What every node of ours is told: nothing that a farm doesn't use.
COMMON = (
    "--block",
    "--num-cpus=0",
    "--num-gpus=0",  # boards are the farm's own affair: Ray leaves CUDA_VISIBLE_DEVICES alone
    f"--object-store-memory={OBJECT_STORE_BYTES}",
    "--include-log-monitor=false",
    "--disable-usage-stats",
)
ADDRESS_FILE = "ray_current_cluster"  # in a head's folder, once it is up


class RayProcess:
    """`ray start --block` with its log; the environment must be ours (ray_home.environment)."""

    def __init__(self, words: Sequence[str], log: Path, environ: dict[str, str]) -> None:
        self.log = log
        self._folder = ray_home.make_folder()
        self._from = log.stat().st_size if log.exists() else 0
        self._chosen = node_ports()
        words = (*words, *COMMON, *port_words(self._chosen))
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*command, f"--temp-dir={self._folder}"],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),  # Ray then ends its node
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def address(self) -> str:
        """HOST:PORT of a head, once it is up; FarmError where it doesn't come up."""
        path = Path(self._folder) / ADDRESS_FILE
        self._until(lambda: path.exists() and b"Ray runtime started" in self._said())
        return path.read_text(encoding="ascii").strip()

    def joined(self) -> None:
        """Returns once a node is part of its cluster; FarmError where it isn't taken in."""
        self._until(lambda: b"Ray runtime started" in self._said())

    def ports(self) -> tuple[int, ...]:
        """On which this process's farm and its Ray listen; those told to Ray may open a little later."""
        return tuple(sorted({*self._chosen, *ray_home.listening_ports(os.getpid())}))

    def alive(self) -> bool:
        return self._process.poll() is None

    def last_line(self) -> str:
        """What Ray said last of its trouble, in one line."""
        with self.log.open("rb") as file:
            file.seek(self._from)
            lines = file.read().decode(errors="replace").splitlines()
        told = [line.strip() for line in lines if line.strip()]
        wrong = [line for line in told if "Error" in line or "ERR" in line]
        return " ".join((wrong or told or ["it said nothing"])[-1].split())[:300]

    def stop(self) -> None:
        """Ends the node and everything below it; by process id, nobody else's."""
        below = ray_home.of_session(self._process.pid)
        if self.alive():
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        for pid in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _until(self, is_up: Callable[[], bool]) -> None:
        until = time.monotonic() + START_S
        while not is_up():
            if not self.alive():
                raise FarmError(f"Ray did not start: {self.last_line()}; see {self.log}")
            if time.monotonic() > until:
                raise FarmError(f"Ray did not start within {START_S:g} s; see {self.log}")
            time.sleep(GLANCE_S)

    def _said(self) -> bytes:
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read()


def die_with_parent(number: signal.Signals) -> None:
    """In a new process: asks Linux for a signal when the parent ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
