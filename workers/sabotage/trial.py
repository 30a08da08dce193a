"""Judges one mutant in a process of its own, forked from one that holds the cases ready."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kernels.errors import FarmError
from kernels.judge import nmse
from workers.backend import CannotRun
from workers.host.module import Module
from workers.sabotage import Fate
from workers.sabotage.fixture import Fixture, same

NMSE_LIMIT = 5e-4  # as llama.cpp's op tests have it
CPU_S = 0.25  # for one case, at least
SLOWER = 20  # a case that takes that many times what the right kernel needs is taken for endless
WALL_S = 30.0  # for one mutant, whatever it does: seen from outside


@dataclass
class Findings:
    """What is known of a mutant so far."""

    fate: Fate = Fate.SURVIVED
    case: str = ""
    reason: str = ""
    relative: bool = False
    nmse: bool = False
    slowest_s: float = 0.0  # processor time of the slowest case

    @property
    def complete(self) -> bool:
        """True when no further case can add anything."""
        return self.fate is not Fate.SURVIVED and self.relative and self.nmse

    def kill(self, fate: Fate, case: str, reason: str) -> None:
        if self.fate is Fate.SURVIVED:
            self.fate, self.case, self.reason = fate, case, reason

    def everyone(self, fate: Fate, case: str, reason: str) -> None:
        """A death that nobody can miss, whatever rule compares."""
        self.kill(fate, case, reason)
        self.relative = self.nmse = True


Tell = Callable[[Findings, str], None]  # what is known, and the case that runs now


def examine(module: Module, entry: str, fixtures: Iterable[Fixture], tell: Tell) -> Findings:
    """Runs case after case until every rule has killed the mutant, or there are none left."""
    found = Findings()
    for fixture in fixtures:
        tell(found, fixture.label)
        began = time.process_time()
        try:
            _examine_case(module, entry, fixture, found)
        except CannotRun:
            raise
        except FarmError as fault:  # Rejected where the launch is against the rules, KernelFault
            found.everyone(Fate.CRASH, fixture.label, str(fault))
        found.slowest_s = max(found.slowest_s, time.process_time() - began)
        if found.complete:
            break
    return found


def _examine_case(module: Module, entry: str, fixture: Fixture, found: Findings) -> None:
    first = fixture.run(module, entry, 0)
    if broken := fixture.broken():
        found.kill(Fate.GUARDS, fixture.label, broken[0])
    compared = fixture.compared(first)
    if compared.verdict.bad:
        unwritten = "never written" in compared.reason
        found.kill(Fate.UNWRITTEN if unwritten else Fate.BOUND, fixture.label, compared.reason)
    found.relative |= compared.relative_ratio > 1 or not compared.nan_positions_equal
    found.nmse |= nmse(compared) > NMSE_LIMIT or not compared.nan_positions_equal
    if found.fate is not Fate.SURVIVED:
        return
    second = fixture.run(module, entry, 1)
    if broken := fixture.broken():
        found.kill(Fate.GUARDS, fixture.label, broken[0])
    if not same(first, second):
        found.kill(Fate.ORDERS, fixture.label, "another result in the other order of execution")


def try_mutant(
    module: Module, entry: str, fixtures: Sequence[Fixture], cpu_s: float = CPU_S, wall_s: float = WALL_S
) -> Findings:
    """Judges one mutant in a forked process, which may crash, hang or write anywhere.

    A case may take `cpu_s` of processor time: a busy machine makes no mutant slow.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _trial(module, entry, fixtures, writer, cpu_s)
    os.close(writer)
    lines, late = _listen(reader, time.monotonic() + wall_s)
    os.close(reader)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return _found(lines, os.waitstatus_to_exitcode(status), late, cpu_s)


def _trial(module: Module, entry: str, fixtures: Sequence[Fixture], writer: int, cpu_s: float) -> NoReturn:
    """The forked process: the timer counts its processor time and ends it, whatever it executes."""

    def tell(found: Findings, case: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        os.write(writer, f"{json.dumps([found.__dict__, case])}\n".encode())

    code = 1
    try:
        tell(examine(module, entry, fixtures, tell), "")
        code = 0
    finally:
        os._exit(code)


def _listen(reader: int, until: float) -> tuple[list[str], bool]:
    """The lines that a process writes until it ends, and whether it had to be given up."""
    got = b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        piece = os.read(reader, 1 << 16)
        if not piece:
            return got.decode().splitlines(), False
        got += piece
    return got.decode().splitlines(), True


def _found(lines: Sequence[str], status: int, late: bool, cpu_s: float) -> Findings:
    """Findings of a process that ended well are whole; else its end is what the last case did."""
    known, case = json.loads(lines[-1]) if lines else (Findings().__dict__, "start")
    found = Findings(**known | {"fate": Fate(known["fate"])})
    if late:
        found.everyone(Fate.TIMEOUT, case, f"outlived {WALL_S:g} s and was killed")
    elif -status == signal.SIGPROF:
        found.everyone(Fate.TIMEOUT, case, f"took more than {cpu_s:.2g} s of processor time")
    elif status or case:  # a mutant may end its process as if all were well
        found.everyone(Fate.CRASH, case, f"its process ended with status {status}")
    return found
