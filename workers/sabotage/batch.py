"""Compiles mutants: many of one text as namespaces of one module, or one alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.model import Build
from kernels.mutants import Mutant
from workers.backend import Rejected
from workers.host import compiler
from workers.host.module import Module
from workers.sabotage.text import Text

# For the same bits, contraction being off at every level: half and a quarter of what -O2 takes to compile.
QUICKLY = ("-Og", "-fno-unroll-loops")
AT_ONCE = ("-O0",)
# Lines for the findings and no columns, so that equal code of one text is an equal file.
COLUMNLESS = ("-gno-column-info",)
WHERE = re.compile(r"^mutant(\d+)[:/]")


@dataclass(frozen=True)
class Compiled:
    """A loaded module, the numbers of the mutants that it has, by name, and what was said of the others."""

    text: Text
    module: Module | None  # None where no mutant compiles
    numbers: Mapping[str, int]
    refused: Mapping[str, str]

    def entry(self, mutant: str, symbol: str = "") -> str:
        """What a kernel of a mutant is called in the module."""
        return self.text.entry(symbol, self.numbers[mutant])


def compile_batch(
    text: Text, mutants: Sequence[Mutant], folder: Path, cache: Path, how: Sequence[str] = QUICKLY
) -> Compiled:
    """The mutants of `text` that compile, in one module.

    Raises Rejected where the compiler's words fit no mutant: they must be tried one by one.
    """
    refused: dict[str, str] = {}
    left = list(mutants)
    while left:
        built, complaints = _attempt(text, left, folder, cache, how)
        if built is not None:
            return Compiled(text, Module(built), {m.name: i for i, m in enumerate(left)}, refused)
        blamed = _blamed(complaints)
        if not blamed and len(left) > 1:
            raise Rejected(f"no line of the compiler's names a mutant: {complaints[0]}")
        said = blamed or {0: complaints[0]}
        refused |= {left[i].name: line for i, line in said.items()}
        left = [mutant for i, mutant in enumerate(left) if i not in said]
    return Compiled(text, None, {}, refused)


def compile_alone(
    text: Text, mutant: Mutant, build: Build, folder: Path, cache: Path, how: Sequence[str] = ()
) -> Module | None:
    """A mutant in a module of its own, as the backend builds it or as told; None where it doesn't compile."""
    out = folder / "mutant.so"
    changed = mutant.apply(text.text)
    translated = compiler.translate(changed, text.name, text.entries)
    complaints = compiler.attempt(translated, out, build.value, cache, (*COLUMNLESS, *how), text.options)
    return None if complaints else Module(out, text.name, compiler.files(changed))


def _attempt(
    text: Text, mutants: Sequence[Mutant], folder: Path, cache: Path, how: Sequence[str]
) -> tuple[Path | None, list[str]]:
    entries = [entry for i in range(len(mutants)) for entry in text.entries_of(i)]
    out = folder / "mutants.so"
    translated = compiler.translate(text.joined(mutants), "mutants.cu", entries)
    complaints = compiler.attempt(translated, out, "exact", cache, how, text.options)
    return (None if complaints else out), complaints


def _blamed(complaints: Sequence[str]) -> dict[int, str]:
    """Number of a mutant to the first error line about it.

    A line may name the mutant before the error (in function …) or behind it (in expansion of a macro …).
    """
    found: dict[int, str] = {}
    for at, line in enumerate(complaints):
        if match := WHERE.match(line):
            near = (line, *complaints[at : at + 2], *complaints[max(0, at - 3) : at])
            found.setdefault(int(match[1]), next((said for said in near if " error: " in said), line))
    return found
