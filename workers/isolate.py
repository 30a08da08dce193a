"""Runs cases in a child process that may crash or hang without harm, and is never left behind."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path

from kernels.errors import FarmError
from kernels.model import Evidence, Verdict
from workers.child_process import GRACE_S, Child
from workers.request import KERNEL_PHASES, Request
from workers.runner import Clock, ended, one_line, wall_clock

# Signals that the system or a person sends: a process that gets one did nothing wrong.
# With SIGKILL the system takes memory back.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Try:
    """One try of a case: its evidence, and whether the child had run nothing before it."""

    evidence: Evidence
    alone: bool


class Isolated:
    """One slot: a child that is kept for the next case, and replaced after trouble.

    Made, used and closed by one thread.
    """

    def __init__(
        self, backends_from: Path | None = None, memory_bytes: int = 0, clock: Clock = wall_clock
    ) -> None:
        self._backends_from = backends_from
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._child: Child | None = None

    def start(self) -> None:
        """Starts the child early, so that it imports while there is something else to do."""
        if self._child is None:
            self._child = Child(self._backends_from, self._memory_bytes)

    def run(self, request: Request, deadline_s: float) -> Evidence:
        """Evidence for the request, at the latest `deadline_s` after a child took it.

        FarmError or OSError if no child can be started: a case that was never started has no verdict.

        A crash counts only when the case ran alone: one in a used child is tried again in a fresh one, whose
        evidence is the case's.
        """
        first = self._try(request, deadline_s)
        if first.alone or first.evidence.verdict is not Verdict.CRASH:
            return first.evidence
        again = self._try(request, deadline_s).evidence
        if again.verdict is Verdict.CRASH:
            return again
        note = f"flaky: crashed behind other cases, not alone ({first.evidence.reason})"
        return replace(again, reason=one_line(f"{again.reason}; {note}" if again.reason else note))

    def close(self) -> None:
        """Ends the child and all that it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _try(self, request: Request, deadline_s: float) -> Try:
        started_us = self._clock()
        child = self._ready()
        alone = child.served == 0
        evidence = child.ask(request, deadline_s)
        if evidence is None:
            evidence = self._obituary(request, child, started_us, deadline_s)
        elif child.spoiled or evidence.verdict is Verdict.CRASH:
            self.close()
        return Try(evidence, alone)

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
        status = child.end(wait_s=0.0 if child.late else GRACE_S)
        self._child = None
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
