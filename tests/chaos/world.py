"""The programs of a chaos run, as a supervisor of services has them: started, hurt, started again, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernels import codec
from workers.sim import plan as plans
from workers.sim.plan import SimPlan

ROOT = Path(__file__).parents[2]
MARK = "FARM_CHAOS"  # in the environment of every process of a run: its id, and the program's name
AGAIN_S = 2.0  # before a program that ended is started again
TURNED_AWAY = ": set aside: "  # what a worker says last of a board that may not work
END_S = 90.0  # for a program to end when it is asked to


@dataclass
class Program:
    """`python -m WORDS`, which is to run until the end."""

    name: str
    words: tuple[str, ...]
    folder: Path
    environ: dict[str, str]
    prefix: tuple[str, ...] = ()  # ip netns exec NAME
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    not_before: float = 0.0
    is_done: bool = False  # it was told that it isn't wanted any more

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [*self.prefix, sys.executable, "-m", *self.words]
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, start_new_session=True,
            )  # fmt: skip
        self.starts += 1

    def last_line(self) -> str:
        lines = (self.folder / "said").read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")


@dataclass
class World:
    """All programs of one run and everything that is said of them."""

    folder: Path
    plan: SimPlan
    url: str
    quiet: bool = False
    programs: dict[str, Program] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # what can't be done on this machine, and why
    sessions: set[int] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plan.json").write_text(codec.canonical(self.plan))

    def environ(self, name: str, boards: str = "") -> dict[str, str]:
        own = {
            "PYTHONPATH": str(ROOT),
            "FARM_DB": self.url,
            "FARM_STATE": str(self.folder / name / ".farm"),
            "RAY_USAGE_STATS_ENABLED": "0",
            plans.PLAN_FILE: str(self.folder / "plan.json"),
            plans.BOARDS: boards,
            MARK: f"{self.mark}:{name}",
        }
        return os.environ | own

    def add(self, name: str, *words: str, boards: str = "", prefix: Sequence[str] = ()) -> Program:
        """A program that runs from now on."""
        program = Program(name, words, self.folder / name, self.environ(name, boards), tuple(prefix))
        self.programs[name] = program
        program.start()
        return program

    def tend(self) -> None:
        """Starts again what has ended."""
        now = time.monotonic()
        for program in self.programs.values():
            if program.is_up or program.is_done:
                continue
            if not program.not_before:
                program.not_before = now + AGAIN_S
                said = program.last_line()
                boards = program.environ[plans.BOARDS].split(",")
                program.is_done = said.count(TURNED_AWAY) == len(boards)
                self.say(f"{program.name} has ended, saying: {said[:200]}")
            elif program.not_before <= now:
                program.not_before = 0.0
                program.start()

    def say(self, line: str) -> None:
        told = f"{time.monotonic() - self.began:6.1f} s  {line}"
        self.said.append(told)
        if not self.quiet:
            print(told, file=sys.stderr, flush=True)

    def pids(self, name: str = "", word: str = "") -> list[int]:
        """Processes of a program, or of all, whose command line has that word."""
        wanted = f"{MARK}={self.mark}:{name}".encode()
        found = []
        for pid, environ in environments():
            if any(one == wanted if name else one.startswith(wanted) for one in environ):
                with suppress(OSError):
                    self.sessions.add(os.getsid(pid))
                    if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                        found.append(pid)
        return found

    def kill(self, pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal to processes of this run; how many took it."""
        taken = 0
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                taken += 1
        return taken

    def end(self) -> list[str]:
        """Asks every program to end; what had to be killed, or was left behind by one that ended."""
        self.pids()  # for their sessions
        wrong = []
        for program in reversed(self.programs.values()):
            if program.process is not None and program.is_up:
                program.process.terminate()
                try:
                    program.process.wait(END_S)
                except subprocess.TimeoutExpired:
                    wrong.append(f"{program.name} did not end within {END_S:g} s")
                    program.process.kill()
        left = self.left()
        wrong += [f"process {pid} is left: {command}" for pid, command in left.items()]
        self.kill(left)
        return wrong

    def left(self, patience_s: float = 20.0) -> dict[int, str]:
        """Processes of this run that still are there after a while, with their command lines."""
        until = time.monotonic() + patience_s
        while (found := self._here()) and time.monotonic() < until:
            time.sleep(0.5)
        return found

    def _here(self) -> dict[int, str]:
        marked, own = set(self.pids()), os.getsid(0)
        found = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                pid, fields = int(entry.parent.name), entry.read_text().rpartition(")")[2].split()
                of_us = pid in marked or (int(fields[3]) in self.sessions - {own})
                if of_us and fields[0] != "Z":
                    command = (entry.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[pid] = command.decode(errors="replace")[:120]
        return found


def environments() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it may have ended meanwhile
            yield int(entry.parent.name), entry.read_bytes().split(b"\0")
