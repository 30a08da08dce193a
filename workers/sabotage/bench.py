"""Judges the mutants of a kernel in batches; then, alone, what those leave open: check build, heavy cases."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from kernels.errors import FarmError
from kernels.model import Build
from kernels.mutants import Mutant
from workers.backend import Rejected
from workers.host.module import Module
from workers.sabotage import Fate, Judgement
from workers.sabotage.batch import AT_ONCE, QUICKLY, Compiled, compile_alone, compile_batch
from workers.sabotage.fixture import Fixture, Program, Usual
from workers.sabotage.text import Text
from workers.sabotage.trial import Findings, Rule, Timed, checking, comparing, try_mutant
from workers.state import compile_cache

BATCH = 24  # mutants in one module
BRIEF_S = 0.05  # cases that take the right kernel less cost a mutant less than optimizing it does
RIGHT = Mutant("", "", 0, 0, 0, "", "")  # changes nothing
RIGHT_CPU_S = 10.0  # more than any quick case takes


def as_it_is(mutant: str, symbol: str) -> str:
    """What a kernel is called in a module of its own."""
    return symbol


@dataclass(frozen=True)
class Loaded:
    """A module, and what it calls a mutant's kernels."""

    module: Module
    entry: Callable[[str, str], str] = as_it_is  # of a mutant's name and a symbol

    @property
    def alone(self) -> bool:
        return self.entry is as_it_is


class Bench:
    """The texts of a kernel, the cases ready to judge its mutants by, and a folder for modules."""

    def __init__(self, texts: Mapping[str, Text], fixtures: Sequence[Fixture], folder: Path) -> None:
        self._texts, self._folder = texts, folder
        self._made = 0
        self._brief = False
        self._launches = [(launch.unit, launch.entry) for launch, _ in fixtures[0].flush.launches]
        quick = {unit: self._compile_right(unit) for unit in texts}
        program = [(quick[unit].module, quick[unit].entry("", entry)) for unit, entry in self._launches]
        foreign = any(texts) or fixtures[0].twin is None  # nothing says that the usual rules pass it
        cases = _timed(program, _known(program, fixtures, foreign), comparing)
        self._size = {unit: 1 if compiled.alone else BATCH for unit, compiled in quick.items()}
        for compiled in quick.values():
            compiled.module.close()
        self._light = [case for case in cases if not case.heavy]
        self._brief = sum(case.cpu_s for case in self._light) < BRIEF_S
        self._right = {
            build: {unit: self._right_module(unit, build) for unit in texts}
            for build in (Build.CHECK, Build.EXACT)
        }
        self._code = {
            (build, unit): _code(module)
            for build, modules in self._right.items()
            for unit, module in modules.items()
        }
        light, heavy = (
            [case.fixture for case in cases if case.heavy is is_heavy] for is_heavy in (False, True)
        )
        self._checked = _timed(self._with(Build.CHECK), light, checking)
        self._heavy = _timed(self._with(Build.EXACT), heavy, comparing)

    def _right_module(self, unit: str, build: Build) -> Module:
        module = self._alone(unit, RIGHT, build)
        if module is None:
            raise FarmError(f"the right text itself doesn't compile in the {build} build")
        return module

    def _compile_right(self, unit: str) -> Loaded:
        """As mutants are compiled: with others where the text can be put into a namespace, else alone."""
        with contextlib.suppress(Rejected):
            compiled = self._compile(unit, [RIGHT])
            if compiled.module is not None:
                return Loaded(compiled.module, compiled.entry)
            if not unit:
                raise FarmError(f"the right text itself doesn't compile: {compiled.refused['']}")
        return Loaded(self._right_module(unit, Build.EXACT))

    def _with(self, build: Build, unit: str = "", loaded: Loaded | None = None, mutant: str = "") -> Program:
        """The right kernel in a build, with another module in place of one of its own."""
        right = self._right[build]
        return [
            (loaded.module, loaded.entry(mutant, entry)) if loaded and one == unit else (right[one], entry)
            for one, entry in self._launches
        ]

    def judge(self, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        """One judgement a mutant, in order."""
        for unit, several in groupby(mutants, lambda mutant: mutant.unit):
            mine = list(several)
            for first in range(0, len(mine), self._size[unit]):
                yield from self._judge_batch(unit, mine[first : first + self._size[unit]])

    def _compile(self, unit: str, mutants: Sequence[Mutant]) -> Compiled:
        how = AT_ONCE if self._brief else QUICKLY
        return compile_batch(self._texts[unit], mutants, self._fresh_folder(), compile_cache(), how)

    def _alone(self, unit: str, mutant: Mutant, build: Build) -> Module | None:
        how = QUICKLY if self._brief and build is Build.CHECK else ()
        return compile_alone(self._texts[unit], mutant, build, self._fresh_folder(), compile_cache(), how)

    def _fresh_folder(self) -> Path:
        self._made += 1  # a loader knows a file by its name
        folder = self._folder / str(self._made)
        folder.mkdir()
        return folder

    def _judge_batch(self, unit: str, mutants: Sequence[Mutant]) -> Iterator[Judgement]:
        if self._size[unit] == 1:
            yield self._judge_alone(mutants[0])
            return
        try:
            compiled = self._compile(unit, mutants)
        except Rejected:
            if len(mutants) == 1:
                raise
            for mutant in mutants:
                yield from self._judge_batch(unit, [mutant])
            return
        gc.freeze()  # a forked process then touches little of this one's memory
        for mutant in mutants:
            if mutant.name in compiled.refused or compiled.module is None:
                yield _uncompiled(mutant, compiled.refused[mutant.name])
            else:
                yield self._judged(mutant, Loaded(compiled.module, compiled.entry))
        if compiled.module is not None:
            compiled.module.close()

    def _judge_alone(self, mutant: Mutant) -> Judgement:
        """Of a text that stands in no namespace."""
        module = self._alone(mutant.unit, mutant, Build.EXACT)
        if module is None:
            return _uncompiled(mutant, "the compiler refuses it")
        judgement = self._judged(mutant, Loaded(module))
        module.close()
        return judgement

    def _judged(self, mutant: Mutant, loaded: Loaded) -> Judgement:
        program = self._with(Build.EXACT, mutant.unit, loaded, mutant.name)
        found = self._further(mutant, try_mutant(program, self._light), program)
        return Judgement(mutant.name, found.fate, found.case, found.reason[:200], found.relative, found.nmse)

    def _further(self, mutant: Mutant, found: Findings, program: Program) -> Findings:
        """What check build and heavy cases add; what is dead only wants the usual rules' word on those."""
        if found.fate is Fate.SURVIVED:
            self._check(mutant, found)
        if found.fate is Fate.SURVIVED:
            self._finish(mutant, found)
        elif found.fate is not Fate.SAME and any(found.gains(case.fixture) for case in self._heavy):
            found.add(try_mutant(program, self._heavy))
        return found

    def _check(self, mutant: Mutant, found: Findings) -> None:
        """Alone in the check build, which sees too what overruns into others of its batch."""
        module = self._alone(mutant.unit, mutant, Build.CHECK)
        if module is None:
            return
        if _code(module) == self._code[Build.CHECK, mutant.unit]:
            found.fate = Fate.SAME
        else:
            program = self._with(Build.CHECK, mutant.unit, Loaded(module))
            checked = try_mutant(program, self._checked, rule=checking)
            found.fate, found.case, found.reason = checked.fate, checked.case, checked.reason
        module.close()

    def _finish(self, mutant: Mutant, found: Findings) -> None:
        """The heavy cases, alone in the exact build; the right kernel's code needs none."""
        module = self._alone(mutant.unit, mutant, Build.EXACT)
        if module is None:
            return
        if _code(module) != self._code[Build.EXACT, mutant.unit]:
            found.add(try_mutant(self._with(Build.EXACT, mutant.unit, Loaded(module)), self._heavy))
        elif found.fate is Fate.SURVIVED:
            found.fate = Fate.SAME
        module.close()


def _uncompiled(mutant: Mutant, said: str) -> Judgement:
    return Judgement(mutant.name, Fate.COMPILE, "", said, relative=False, nmse=False)


def _known(program: Program, fixtures: Sequence[Fixture], foreign: bool) -> list[Fixture]:
    """Cases with what the right kernel shows of them: whether its bits are the twin's, and of a foreign one
    (a catalog's, or one without a twin) the usual rules that it breaks, which are deaf there.
    """
    found = [(one, try_mutant(program, [Timed(one, RIGHT_CPU_S)])) for one in fixtures]
    return [
        replace(one, exact=right.exact, deaf=Usual(right.relative, right.nmse) if foreign else one.deaf)
        for one, right in found
    ]


def _timed(program: Program, fixtures: Sequence[Fixture], rule: Rule) -> list[Timed]:
    """The cases, cheap ones first, by their cost to the right kernel; FarmError where a rule kills it."""
    unlimited = [Timed(fixture, RIGHT_CPU_S) for fixture in fixtures]
    right = try_mutant(program, unlimited, rule=rule)
    if right.fate is not Fate.SURVIVED or right.relative or right.nmse:
        raise FarmError(
            f"the right kernel itself is killed by case {right.case}: {right.fate} {right.reason}"
        )
    timed = [Timed(fixture, took) for fixture, took in zip(fixtures, right.seconds, strict=True)]
    return sorted(timed, key=lambda case: case.cpu_s)


def _code(module: Module) -> bytes:
    """Digest of all that was linked: of one text, equal files are equal instructions."""
    return hashlib.sha256(module.path.read_bytes()).digest()


def judge_mutants(
    texts: Mapping[str, Text], mutants: Sequence[Mutant], fixtures: Sequence[Fixture]
) -> Iterator[Judgement]:
    """Every mutant of a kernel's texts; FarmError where the right kernel itself doesn't pass."""
    with tempfile.TemporaryDirectory() as folder:
        yield from Bench(texts, fixtures, Path(folder)).judge(mutants)
