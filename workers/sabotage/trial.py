"""Judges one mutant in a process of its own, forked from one that holds the cases ready."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from kernels.errors import FarmError
from workers.backend import CannotRun
from workers.sabotage import Fate
from workers.sabotage.fixture import Fixture, Program, same

CPU_S = 0.25  # for one case, at least
SLOWER = 20  # a case that takes that many times what the right kernel needs is taken for endless
HEAVY_S = 0.05  # a case that takes the right kernel longer is kept for those that the others don't settle
WALL_S = 60.0  # for one case, whatever it does: seen from outside


@dataclass(frozen=True)
class Timed:
    """A case, and the processor time that the right kernel needs for it."""

    fixture: Fixture
    cpu_s: float

    @property
    def limit_s(self) -> float:
        return max(CPU_S, SLOWER * self.cpu_s)

    @property
    def heavy(self) -> bool:
        return self.cpu_s > HEAVY_S


@dataclass
class Findings:
    """What is known of a mutant so far."""

    fate: Fate = Fate.SURVIVED
    case: str = ""
    reason: str = ""
    relative: bool = False
    nmse: bool = False
    exact: bool = True  # every output that was compared was the twin's, bit for bit
    seconds: list[float] = field(default_factory=list)  # processor time of every case that ended

    def gains(self, fixture: Fixture) -> bool:
        """Whether the case can add something; of a dead one only what a rule that isn't deaf hasn't seen."""
        relative, nmse = self.relative or fixture.deaf.relative, self.nmse or fixture.deaf.nmse
        return self.fate is Fate.SURVIVED or not (relative and nmse)

    def kill(self, fate: Fate, case: str, reason: str) -> None:
        if self.fate is Fate.SURVIVED:
            self.fate, self.case, self.reason = fate, case, reason

    def add(self, more: Findings) -> None:
        """What further cases have shown."""
        self.kill(more.fate, more.case, more.reason)
        self.relative |= more.relative
        self.nmse |= more.nmse

    def everyone(self, fate: Fate, case: str, reason: str) -> None:
        """A death that nobody can miss, whatever rule compares."""
        self.kill(fate, case, reason)
        self.relative = self.nmse = True


Tell = Callable[[Findings, str, float], None]  # what is known, the case that runs now, what it may take
Rule = Callable[[Program, Fixture, Findings], None]


def examine(program: Program, cases: Iterable[Timed], rule: Rule, tell: Tell) -> Findings:
    """Runs case after case until every rule has killed the mutant, or there are none left."""
    found = Findings()
    for case in cases:
        if not found.gains(case.fixture):
            continue
        tell(found, case.fixture.label, case.limit_s)
        began = time.process_time()
        try:
            rule(program, case.fixture, found)
        except CannotRun:
            raise
        except FarmError as fault:  # Rejected where the launch is against the rules, KernelFault
            found.everyone(Fate.CRASH, case.fixture.label, str(fault))
        found.seconds.append(time.process_time() - began)
    return found


def comparing(program: Program, fixture: Fixture, found: Findings) -> None:
    """Both orders of execution: guards, outputs against truth and twin, and against each other.

    Where a catalog says that runs may differ, both are held against the truth instead.
    """
    first = fixture.run(program, 0)
    _judge(first, 0, fixture, found)
    usual = fixture.usual(first)
    found.relative |= usual.relative
    found.nmse |= usual.nmse
    if found.fate is not Fate.SURVIVED:
        return
    second = fixture.run(program, 1)
    if not fixture.deterministic:
        _judge(second, 1, fixture, found)
        return
    if broken := fixture.broken():
        found.kill(Fate.GUARDS, fixture.label, broken[0])
    if not same(first, second):
        found.kill(Fate.ORDERS, fixture.label, "another result in the other order of execution")


def _judge(got: np.ndarray, turn: int, fixture: Fixture, found: Findings) -> None:
    if broken := fixture.broken():
        found.kill(Fate.GUARDS, fixture.label, broken[0])
    compared = fixture.compared(got, turn)
    if compared.verdict.bad:
        unwritten = "never written" in compared.reason
        found.kill(Fate.UNWRITTEN if unwritten else Fate.BOUND, fixture.label, compared.reason)
    elif fixture.exact and not compared.bit_exact:
        found.kill(Fate.BITS, fixture.label, "within the bound, but other bits than the twin's")
    found.exact &= compared.bit_exact


def checking(program: Program, fixture: Fixture, found: Findings) -> None:
    """What the check build finds; its outputs are those of the exact build, seen before."""
    if findings := fixture.findings(program):
        found.everyone(Fate.CHECK, fixture.label, findings[0])


def try_mutant(
    program: Program,
    cases: Sequence[Timed],
    wall_s: float = WALL_S,
    rule: Rule = comparing,
) -> Findings:
    """Judges one mutant in a forked process, which may crash, hang or write anywhere.

    Its limit is processor time, so that a busy machine makes no mutant slow; one that sleeps is killed too.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _trial(program, cases, rule, writer)
    os.close(writer)
    lines, late = _listen(reader, wall_s)
    os.close(reader)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return _found(lines, os.waitstatus_to_exitcode(status), late)


def _trial(program: Program, cases: Sequence[Timed], rule: Rule, writer: int) -> NoReturn:
    """The forked process: the timer counts its processor time and ends it, whatever it executes."""

    def tell(found: Findings, case: str, limit_s: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        os.write(writer, f"{json.dumps([found.__dict__, case])}\n".encode())

    code = 1
    try:
        tell(examine(program, cases, rule, tell), "", CPU_S)
        code = 0
    finally:
        os._exit(code)


def _listen(reader: int, silence_s: float) -> tuple[list[str], bool]:
    """The lines that a process writes until it ends, and whether it was silent for too long."""
    got = b""
    while select.select([reader], [], [], silence_s)[0]:
        piece = os.read(reader, 1 << 16)
        if not piece:
            return got.decode().splitlines(), False
        got += piece
    return got.decode().splitlines(), True


def _found(lines: Sequence[str], status: int, late: bool) -> Findings:
    """Findings of a process that ended well are whole; else its end is what the last case did."""
    known, case = json.loads(lines[-1]) if lines else (Findings().__dict__, "start")
    found = Findings(**known | {"fate": Fate(known["fate"])})
    if late:
        found.everyone(Fate.TIMEOUT, case, "ran for too long and was killed")
    elif -status == signal.SIGPROF:
        found.everyone(Fate.TIMEOUT, case, f"took {SLOWER} times what the right kernel takes")
    elif status or case:  # a mutant may end its process as if all were well
        found.everyone(Fate.CRASH, case, f"its process ended with status {status}")
    return found
