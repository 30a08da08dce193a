"""Runs cases in a child process that may crash or hang without harm, and is never left behind."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from kernels.model import Device
from workers import sanitizer, watching
from workers.child_process import GRACE_S, Child, Setting
from workers.clock import wall_clock
from workers.machine import memory_bytes as memory_here
from workers.request import KERNEL_PHASES, Request
from workers.runner import Clock, ended, one_line
from workers.watching import Trouble

# Signals that the system or a person sends: a process that gets one did nothing wrong.
# With SIGKILL the system takes memory back.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

BLAMED = (Verdict.CRASH, Verdict.TIMEOUT)  # verdicts that a board with a fault of its own brings about, too
MEMORY_SHARE = (
    0.9  # of the machine's: a child that wants more fails by itself, and nothing beside it is killed
)


@dataclass(frozen=True)
class Try:
    """One try of a case: its evidence, and whether the child had run nothing before it."""

    evidence: Evidence
    alone: bool


class Isolated:
    """One slot: a child that is kept for the next case, and replaced after trouble.

    Made, used and closed by one thread; `abandon` alone may be called from another.
    """

    def __init__(
        self,
        backends_from: Path | None = None,
        memory_bytes: int | None = None,
        clock: Clock = wall_clock,
        holds: int | None = None,
        checker: Callable[[str], str] = sanitizer.find,
        watch: Callable[[str, Device], Trouble] = watching.watch,
    ) -> None:
        """`memory_bytes` is what a child may allocate: most of the machine's unless given, 0 for no limit.

        `holds` is the descriptor of the board's lock; `checker` finds what a crash is repeated under, by
        backend; `watch` begins to watch a backend's board for faults of its own.
        """
        most = int(memory_here() * MEMORY_SHARE) if memory_bytes is None else memory_bytes
        self._setting = Setting(backends_from, most, holds)
        self._clock = clock
        self._checker = checker
        self._watch = cache(watch)  # a board is watched from its first case on
        self._child: Child | None = None
        self._retired = ""  # why no child is started any more

    def start(self) -> None:
        """Starts the child early, so that it imports while there is something else to do.

        FarmError where the last one could not be killed, or the board has a fault of its own: it is given no
        further case.
        """
        if self._retired:
            raise FarmError(self._retired)
        if self._child is None:
            self._child = Child(self._setting)

    def run(self, request: Request, deadline_s: float) -> Evidence:
        """Evidence for the request, at the latest `deadline_s` after a child took it.

        FarmError or OSError if no child can be started: a case that was never started has no verdict.

        A crash counts only when the case ran alone: one in a used child is tried again in a fresh one, whose
        evidence is the case's. What a checker then says of it is added to the reason. Crash and hang are the
        kernel's only if the board has no trouble of its own.
        """
        first = self._try(request, deadline_s)
        if first.evidence.verdict is not Verdict.CRASH:
            return first.evidence
        if first.alone:
            return self._checked(request, first.evidence, deadline_s)
        again = self._try(request, deadline_s).evidence
        if again.verdict is Verdict.CRASH:
            return self._checked(request, again, deadline_s)
        note = f"flaky: crashed behind other cases, not alone ({first.evidence.reason})"
        return replace(again, reason=one_line(f"{again.reason}; {note}" if again.reason else note))

    def abandon(self) -> None:
        """Kills the running case's child: what comes of it is nobody's evidence."""
        if child := self._child:
            child.abandon()

    def close(self) -> None:
        """Ends the child and all that it started."""
        if self._child is not None:
            self._end(self._child)

    def _end(self, child: Child, wait_s: float = 0.0) -> int | None:
        """Ends a child; one that is still there afterwards is this slot's last."""
        status = child.end(wait_s)
        self._child = None
        if child.stuck:
            self._retired = f"child process {child.pid} can't be killed: its board runs nothing more; restart"
            self._retired += " the machine"
        return status

    def _try(self, request: Request, deadline_s: float) -> Try:
        trouble = self._watch(request.backend, request.device)
        started_us = self._clock()
        child = self._ready()
        alone = child.served == 0
        evidence = child.ask(request, deadline_s)
        if evidence is None:
            evidence = self._obituary(request, child, started_us, deadline_s)
        elif child.spoiled or evidence.verdict is Verdict.CRASH:
            self.close()
        if evidence.verdict in BLAMED and (why := watching.ask(trouble)):
            evidence = replace(evidence, verdict=Verdict.ERROR, reason=one_line(f"{evidence.reason}: {why}"))
            self._retire(request.device, why)
        return Try(evidence, alone)

    def _retire(self, board: Device, why: str) -> None:
        """The board is given no further case."""
        self.close()
        self._retired = self._retired or f"{board.slug} runs nothing more: {why}"

    def _checked(self, request: Request, crash: Evidence, deadline_s: float) -> Evidence:
        """The crash with what the checker says of the case, which runs once more, where one is installed."""
        path = self._checker(request.backend)
        if not path or self._retired:
            return crash
        child = Child(self._setting, sanitizer.command(path))
        try:
            if child.wait_ready():
                child.ask(replace(request, last=True), deadline_s * sanitizer.SLOWER)
        finally:
            self._end(child, sanitizer.REPORT_S)
        told = sanitizer.said(child.printed) or "nothing"
        return replace(crash, reason=one_line(f"{crash.reason}; {Path(path).name} says: {told}"))

    def _ready(self) -> Child:
        """A child that waits for a case."""
        if self._child is not None and not self._child.is_alive():
            self.close()
        self.start()
        child = self._child
        assert child is not None  # start() made it
        if child.served or child.wait_ready():
            return child
        self.close()
        raise FarmError(f"the child process did not start: {child.said or 'it said nothing'}")

    def _obituary(self, request: Request, child: Child, started_us: int, deadline_s: float) -> Evidence:
        """Evidence for a case whose child ended without a word, or outlived its deadline."""
        status = self._end(child, 0.0 if child.late else GRACE_S)
        verdict, reason = cause_of_death(status, child.late, child.phase, deadline_s)
        reason += f"; printed: {child.said}" if child.said else ""
        return ended(request, verdict, reason, started_us, self._clock())


def cause_of_death(status: int | None, late: bool, phase: str, deadline_s: float) -> tuple[Verdict, str]:
    """Verdict and reason for a child that had to be ended, or was found dead with that exit status.

    What happens before the kernel's own code runs is the farm's fault, and so is a signal sent from outside.
    """
    during = f"in phase {phase or 'start'}"
    by_kernel = phase in KERNEL_PHASES
    if status is None and late:
        verdict = Verdict.TIMEOUT if by_kernel else Verdict.ERROR
        return verdict, f"outlived its deadline of {deadline_s:g} s {during} and was killed"
    if status is not None and -status in FROM_OUTSIDE:
        return (
            Verdict.ERROR,
            f"killed by {signal_name(-status)} {during}, which the farm did not send; out of memory?",
        )
    return (Verdict.CRASH if by_kernel else Verdict.ERROR), f"{_end_of(status)} {during}"


def _end_of(status: int | None) -> str:
    if status is None:
        return "closed its connection"
    return f"died of {signal_name(-status)}" if status < 0 else f"exited with status {status}"


def signal_name(number: int) -> str:
    """SIGSEGV; real-time signals have only numbers."""
    return {known.value: known.name for known in signal.Signals}.get(number, f"signal {number}")
