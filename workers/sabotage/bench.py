"""Judges the mutants of one text: in batches, then alone and instrumented what is still alive."""

from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernels.errors import FarmError
from kernels.mutants import Mutant
from workers.backend import Rejected
from workers.host.module import Module
from workers.sabotage import Fate, Judgement
from workers.sabotage.batch import CHECKED, QUICKLY, Compiled, compile_batch
from workers.sabotage.fixture import Fixture
from workers.sabotage.trial import Findings, Timed, try_mutant
from workers.state import compile_cache

BATCH = 24  # mutants in one module
RIGHT = Mutant("", "", 0, 0, 0, "", "")  # changes nothing
RIGHT_CPU_S = 10.0  # more than any quick case takes
# What an instrumented access past its array ends with, on x86-64 and on Arm.
TRAPS = ("gave up (Illegal instruction)", "gave up (Trace/breakpoint trap)")


class Bench:
    """A text, the cases ready to judge its mutants by, and a folder for modules."""

    def __init__(self, text: str, fixtures: Sequence[Fixture], folder: Path) -> None:
        self._text, self._folder = text, folder
        self._made = 0
        self._cases, _ = self._timed(fixtures, QUICKLY)
        self._checked, self._right_code = self._timed(fixtures, CHECKED)

    def judge(self, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        """One judgement a mutant, in order."""
        for first in range(0, len(mutants), BATCH):
            yield from self._judge_batch(mutants[first : first + BATCH])

    def _timed(self, fixtures: Sequence[Fixture], flags: Sequence[str]) -> tuple[list[Timed], bytes]:
        """The cases, cheap ones first, by their cost to the right kernel, and the digest of its code.

        FarmError where a rule kills it.
        """
        compiled = self._compile([RIGHT], flags)
        if compiled.module is None:
            raise FarmError(f"the right text itself doesn't compile: {compiled.refused['']}")
        unlimited = [Timed(fixture, RIGHT_CPU_S) for fixture in fixtures]
        right = try_mutant(compiled.module, compiled.entries[""], unlimited)
        code = _code(compiled.module)
        compiled.module.close()
        if right.fate is not Fate.SURVIVED or right.relative or right.nmse:
            raise FarmError(
                f"the right kernel itself is killed by case {right.case}: {right.fate} {right.reason}"
            )
        timed = [Timed(fixture, took) for fixture, took in zip(fixtures, right.seconds, strict=True)]
        return sorted(timed, key=lambda case: case.cpu_s), code

    def _compile(self, mutants: Sequence[Mutant], flags: Sequence[str]) -> Compiled:
        self._made += 1  # a loader knows a file by its name
        folder = self._folder / str(self._made)
        folder.mkdir()
        return compile_batch(self._text, mutants, folder, compile_cache(), flags)

    def _judge_batch(self, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        try:
            compiled = self._compile(mutants, QUICKLY)
        except Rejected:
            if len(mutants) == 1:
                raise
            for mutant in mutants:
                yield from self._judge_batch([mutant])
            return
        gc.freeze()  # a forked process then touches little of this one's memory
        for mutant in mutants:
            if mutant.name in compiled.refused or compiled.module is None:
                yield Judgement(mutant.name, Fate.COMPILE, "", compiled.refused[mutant.name], False, False)
                continue
            entry = compiled.entries[mutant.name]
            found = try_mutant(compiled.module, entry, self._cases, spare=True)
            if found.fate is Fate.SURVIVED:
                found = self._alone(mutant, found)
            yield Judgement(
                mutant.name, found.fate, found.case, found.reason[:200], found.relative, found.nmse
            )
        if compiled.module is not None:
            compiled.module.close()

    def _alone(self, mutant: Mutant, before: Findings) -> Findings:
        """Once more as the exact build is, instrumented: in a batch a text may overrun into others."""
        compiled = self._compile([mutant], CHECKED)
        if compiled.module is None:
            return before
        if _code(compiled.module) == self._right_code:
            compiled.module.close()
            return replace(before, fate=Fate.SAME)
        found = try_mutant(compiled.module, compiled.entries[mutant.name], self._checked)
        compiled.module.close()
        if found.fate is Fate.CRASH and any(trap in found.reason for trap in TRAPS):
            found.fate = Fate.CHECK
            found.reason = f"indexes past an array or shifts past its type: {found.reason}"
            found.relative, found.nmse = before.relative, before.nmse
        return found


def _code(module: Module) -> bytes:
    """Digest of all that was linked: of one text, equal files are equal instructions."""
    return hashlib.sha256(module.path.read_bytes()).digest()


def judge_mutants(text: str, mutants: Sequence[Mutant], fixtures: Sequence[Fixture]) -> Iterator[Judgement]:
    """Every mutant of a text; FarmError where the right text itself doesn't pass."""
    with tempfile.TemporaryDirectory() as folder:
        yield from Bench(text, fixtures, Path(folder)).judge(mutants)
