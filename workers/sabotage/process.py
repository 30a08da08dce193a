"""Runs jobs in processes of their own, several at a time, and leaves none behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

import workers
from kernels import codec
from workers.sabotage import Job, Judgement, Report

Tell = Callable[[Job, "Judgement | Report"], None]


class Process:
    """One `python -m workers.sabotage` in a process group of its own."""

    def __init__(self) -> None:
        # One thread for numpy's linear algebra: it forks, and there is a process a core.
        env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # What it and the compiler write goes with it, however it ends.
        self._folder = tempfile.TemporaryDirectory()
        env["TMPDIR"] = self._folder.name
        root = str(Path(workers.__file__).parents[1])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.sabotage"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )

    def run(self, job: Job, tell: Tell) -> bool:
        """Passes on what the process says of a job; False if it ended before its report."""
        with contextlib.suppress(BrokenPipeError):  # it has died
            _piped(self._process.stdin).write(json.dumps(codec.encode(job)) + "\n")
            _piped(self._process.stdin).flush()
        for line in _piped(self._process.stdout):
            ((name, data),) = json.loads(line).items()
            if name == "Report":
                tell(job, codec.decode(Report, data))
                return True
            tell(job, codec.decode(Judgement, data))
        return False

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """Ends it with the mutant that it runs and the compiler; whoever listens to it hears the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what it was told and never read
                _piped(pipe).close()
        self._folder.cleanup()


def _piped(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # both were asked for
    return pipe


def run_jobs(jobs: Sequence[Job], processes: int, tell: Tell, start: Callable[[], Process] = Process) -> None:
    """Every job, each told by its judgements and then its report.

    Whatever is raised meanwhile, an interrupt too, ends all processes.
    """
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in jobs:
        waiting.put(job)
    heard: SimpleQueue[tuple[Job, Judgement | Report]] = SimpleQueue()
    stop, living = threading.Event(), set[Process]()

    def work() -> None:
        while not stop.is_set() and (job := _next(waiting)):
            process = start()
            living.add(process)
            if not process.run(job, lambda job, value: heard.put((job, value))):
                heard.put((job, Report(0, 0.0, "the process that judges its mutants has died; run it again")))
            living.discard(process)
            process.end()

    # A process ends with the thread that started it, so these live as long as there is something to do.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(processes, len(jobs)))]
    try:
        for thread in threads:
            thread.start()
        unreported = len(jobs)
        while unreported:
            job, value = heard.get()
            unreported -= isinstance(value, Report)
            tell(job, value)
    finally:
        stop.set()
        for process in tuple(living):
            process.kill()
        for thread in threads:
            thread.join()


def _next(waiting: SimpleQueue[Job]) -> Job | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None
