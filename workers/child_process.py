"""Starts, asks and ends one `workers.child`, with everything that it started itself."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import workers
from kernels.evidence import Evidence
from workers.log import is_secret
from workers.request import READY, SPOILED, Answer, Request
from workers.wire import Channel, Closed

STARTUP_S = 120.0  # importing numpy on a machine that is out of breath
GRACE_S = 1.0  # between SIGTERM and SIGKILL
KILLED_S = 10.0  # after SIGKILL: a process that is there then hangs in the kernel, in a driver as a rule
GLANCE_S = 0.2  # how often a silent child is looked at: a process it forked may hold its socket open
KEPT_BACK = ("FARM_DB", "PGPASSFILE")  # where the database is: no kernel's business
MARK = "FARM_CHILD"  # in the environment of a child and of all that it starts
LOG_BYTES = 1 << 20  # what a child has printed is forgotten between cases when it is more
LAST_LINES = 3
LAST_CHARACTERS = 2000
MOST_PRINTED_BYTES = 64 << 10
KILL_ROUNDS = 200


@dataclass(frozen=True)
class Setting:
    """What the children of one slot have in common."""

    backends_from: Path | None = None  # a folder with further backends
    memory_bytes: int = 0  # what one may allocate; 0: no limit
    holds: int | None = None  # descriptor of the board's lock, which one that can't be killed goes on holding


class Child:
    """A process that runs cases one after another, its socket, and the file that takes what it prints.

    Linux ends it with the thread that made it, so that thread must live as long as the child is of use.
    """

    def __init__(self, setting: Setting, under: tuple[str, ...] = ()) -> None:
        """`under` is the command that the child runs under: a checker's."""
        self.served = 0  # cases answered
        self.spoiled = False  # a guard band broke
        self.stuck = False  # when it was ended: it is still there
        self.phase = ""  # of the current case
        self.late = False  # whether the current case outlived its deadline
        self.printed = ""  # when it has ended: what the last case printed, the end of it where that is long
        self._mark = uuid.uuid4().hex
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._log_start = 0
        ours, theirs = socket.socketpair()
        options = [f"--memory-bytes={setting.memory_bytes}"]
        options += [f"--backends-from={setting.backends_from}"] if setting.backends_from else []
        holds = () if setting.holds is None else (setting.holds,)
        with theirs:
            self._process = subprocess.Popen(
                # -P: a folder named numpy or kernels where the user stands is not ours to import.
                [*under, sys.executable, "-P", "-m", "workers.child", str(theirs.fileno()), *options],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=_environment(self._mark),
                pass_fds=(theirs.fileno(), *holds),
                start_new_session=True,
            )
        self._channel = Channel(ours, Answer)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> bool:
        """Whether the child has started; waits STARTUP_S for it at most."""
        answer = self._next(time.monotonic() + STARTUP_S)
        return answer is not None and answer.phase == READY

    def ask(self, request: Request, deadline_s: float) -> Evidence | None:
        """The child's evidence, or None if it died or the time ran out; late answers are dropped."""
        self.phase = ""
        self._forget_log()
        until = time.monotonic() + deadline_s
        with contextlib.suppress(Closed):  # a child that is gone says so when it is listened to
            self._channel.send(request)
        while answer := self._next(until):
            if answer.evidence_id != request.evidence_id:
                continue
            if answer.evidence is not None:
                self.served += 1
                return answer.evidence
            if answer.phase == SPOILED:
                self.spoiled = True
            else:
                self.phase = answer.phase
        self.late = time.monotonic() >= until
        return None

    def end(self, wait_s: float = 0.0) -> int | None:
        """Ends the child and all that it started; its exit status, or None if it hadn't ended by itself.

        `wait_s` is given to a child that is known to be ending.
        """
        status = self._wait(wait_s)
        self._kill_group(signal.SIGTERM)
        self._wait(GRACE_S)
        self._kill_group(signal.SIGKILL)
        self.stuck = self._wait(KILLED_S) is None
        kill_marked(self._mark)
        self._channel.close()
        self.printed = self._printed()
        self._log.close()
        return status

    def abandon(self) -> None:
        """Kills the child at once, from whatever thread: nobody wants the case that it runs."""
        self._kill_group(signal.SIGKILL)

    @property
    def said(self) -> str:
        """When it has ended: the last lines that the last case printed, as one."""
        lines = [line.strip() for line in self.printed[-LAST_CHARACTERS:].splitlines() if line.strip()]
        return " | ".join(lines[-LAST_LINES:])

    def _printed(self) -> str:
        descriptor = self._log.fileno()
        size = os.fstat(descriptor).st_size
        start = max(self._log_start, size - MOST_PRINTED_BYTES)
        return os.pread(descriptor, max(0, size - start), start).decode(errors="replace")

    def _next(self, until: float) -> Answer | None:
        """The child's next word, or None if there will be none by then."""
        try:
            while True:
                alive = self.is_alive()  # asked first: a dead child has said all that it will
                wake = min(until, time.monotonic() + GLANCE_S) if alive else 0.0
                answer = self._channel.receive(wake)
                if answer is not None or not alive or time.monotonic() >= until:
                    return answer
        except Closed:
            return None

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _kill_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _forget_log(self) -> None:
        """From here on the log is the next case's."""
        descriptor = self._log.fileno()
        self._log_start = os.fstat(descriptor).st_size
        if self._log_start > LOG_BYTES:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)  # the child writes at the same offset
            self._log_start = 0


def _environment(mark: str) -> dict[str, str]:
    """The parent's without Ray's and without secrets, with the mark and the folder `workers` came from."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith("RAY_") or name in KEPT_BACK or is_secret(name))
    }
    root = str(Path(workers.__file__).parents[1])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    # One thread for numpy's linear algebra: the farm has a child per core.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**inherited, **threads, "PYTHONPATH": os.pathsep.join(path), MARK: mark}


def kill_marked(mark: str) -> None:
    """Kills what left the child's process group but has its environment; where there is no /proc, nothing."""
    for _ in range(KILL_ROUNDS):  # one of them may have forked while we looked
        strays = list(marked(mark))
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked(mark: str) -> Iterator[int]:
    """Processes that carry a child's mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in entry.read_bytes().split(b"\0"):
                yield int(entry.parent.name)
