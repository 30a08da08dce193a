"""Judges the mutants of one text in batches; then, alone, what those leave open: check build, heavy cases."""

from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernels.errors import FarmError
from kernels.model import Build
from kernels.mutants import Mutant
from workers.backend import Rejected
from workers.host.module import Module
from workers.sabotage import Fate, Judgement
from workers.sabotage.batch import Compiled, compile_alone, compile_batch
from workers.sabotage.fixture import Fixture
from workers.sabotage.trial import Findings, Rule, Timed, checking, comparing, try_mutant
from workers.state import compile_cache

BATCH = 24  # mutants in one module
RIGHT = Mutant("", "", 0, 0, 0, "", "")  # changes nothing
RIGHT_CPU_S = 10.0  # more than any quick case takes


class Bench:
    """A text, the cases ready to judge its mutants by, and a folder for modules."""

    def __init__(self, text: str, fixtures: Sequence[Fixture], folder: Path) -> None:
        self._text, self._folder = text, folder
        self._made = 0
        self._entry = fixtures[0].launch.entry  # what a text alone calls its kernel
        compiled = self._compile([RIGHT])
        if compiled.module is None:
            raise FarmError(f"the right text itself doesn't compile: {compiled.refused['']}")
        cases = _timed(compiled.module, compiled.entries[""], fixtures, comparing)
        compiled.module.close()
        self._light = [case for case in cases if not case.heavy]
        light, heavy = (
            [case.fixture for case in cases if case.heavy is is_heavy] for is_heavy in (False, True)
        )
        self._checked, self._right_checked = self._right(Build.CHECK, light, checking)
        self._heavy, self._right_exact = self._right(Build.EXACT, heavy, comparing)

    def _right(self, build: Build, fixtures: Sequence[Fixture], rule: Rule) -> tuple[list[Timed], bytes]:
        """What the right kernel needs for the cases, alone in a build, and the digest of its code."""
        module = self._alone(RIGHT, build)
        if module is None:
            raise FarmError(f"the right text itself doesn't compile in the {build} build")
        timed, code = _timed(module, self._entry, fixtures, rule), _code(module)
        module.close()
        return timed, code

    def judge(self, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        """One judgement a mutant, in order."""
        for first in range(0, len(mutants), BATCH):
            yield from self._judge_batch(mutants[first : first + BATCH])

    def _compile(self, mutants: Sequence[Mutant]) -> Compiled:
        return compile_batch(self._text, mutants, self._fresh_folder(), compile_cache())

    def _alone(self, mutant: Mutant, build: Build) -> Module | None:
        name = f"{self._entry}.cu"
        return compile_alone(self._text, mutant, build, name, self._fresh_folder(), compile_cache())

    def _fresh_folder(self) -> Path:
        self._made += 1  # a loader knows a file by its name
        folder = self._folder / str(self._made)
        folder.mkdir()
        return folder

    def _judge_batch(self, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        try:
            compiled = self._compile(mutants)
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
            found = self._further(mutant, try_mutant(compiled.module, entry, self._light))
            yield Judgement(
                mutant.name, found.fate, found.case, found.reason[:200], found.relative, found.nmse
            )
        if compiled.module is not None:
            compiled.module.close()

    def _further(self, mutant: Mutant, found: Findings) -> Findings:
        """What the check build and the heavy cases add to what the batch has shown."""
        if found.fate is Fate.SURVIVED:
            self._check(mutant, found)
        if found.fate is Fate.SAME or found.complete:
            return found
        if self._heavy or found.fate is Fate.SURVIVED:
            self._finish(mutant, found)
        return found

    def _check(self, mutant: Mutant, found: Findings) -> None:
        """Alone in the check build, which sees too what overruns into others of its batch."""
        module = self._alone(mutant, Build.CHECK)
        if module is None:
            return
        if _code(module) == self._right_checked:
            found.fate = Fate.SAME
        else:
            checked = try_mutant(module, self._entry, self._checked, rule=checking)
            found.fate, found.case, found.reason = checked.fate, checked.case, checked.reason
        module.close()

    def _finish(self, mutant: Mutant, found: Findings) -> None:
        """The heavy cases, alone in the exact build; the right kernel's code needs none."""
        module = self._alone(mutant, Build.EXACT)
        if module is None:
            return
        if _code(module) != self._right_exact:
            found.add(try_mutant(module, self._entry, self._heavy))
        elif found.fate is Fate.SURVIVED:
            found.fate = Fate.SAME
        module.close()


def _timed(module: Module, entry: str, fixtures: Sequence[Fixture], rule: Rule) -> list[Timed]:
    """The cases, cheap ones first, by their cost to the right kernel; FarmError where a rule kills it."""
    unlimited = [Timed(fixture, RIGHT_CPU_S) for fixture in fixtures]
    right = try_mutant(module, entry, unlimited, rule=rule)
    if right.fate is not Fate.SURVIVED or right.relative or right.nmse:
        raise FarmError(
            f"the right kernel itself is killed by case {right.case}: {right.fate} {right.reason}"
        )
    timed = [Timed(fixture, took) for fixture, took in zip(fixtures, right.seconds, strict=True)]
    return sorted(timed, key=lambda case: case.cpu_s)


def _code(module: Module) -> bytes:
    """Digest of all that was linked: of one text, equal files are equal instructions."""
    return hashlib.sha256(module.path.read_bytes()).digest()


def judge_mutants(text: str, mutants: Sequence[Mutant], fixtures: Sequence[Fixture]) -> Iterator[Judgement]:
    """Every mutant of a text; FarmError where the right text itself doesn't pass."""
    with tempfile.TemporaryDirectory() as folder:
        yield from Bench(text, fixtures, Path(folder)).judge(mutants)
