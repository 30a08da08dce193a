"""Compiles mutants: many of one text as namespaces of one module, or one alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels import source
from kernels.model import Build
from kernels.mutants import ENTRY, Mutant
from workers.backend import Rejected
from workers.host import compiler
from workers.host.module import Module

# A third of the time of -O2 for the same bits: contraction is off at every level.
QUICKLY = ("-Og", "-fno-unroll-loops")
# Lines for the findings and no columns, so that equal code of one text is an equal file.
COLUMNLESS = ("-gno-column-info",)
WHERE = re.compile(r"^mutant(\d+):")
DEFINE_ENTRY = re.compile(rf"^#define {ENTRY} .*$", re.MULTILINE)


@dataclass(frozen=True)
class Compiled:
    """A loaded module, the mutants it has by name with their entries, and what was said of the others."""

    module: Module | None  # None where no mutant compiles
    entries: Mapping[str, str]
    refused: Mapping[str, str]


def compile_batch(text: str, mutants: Sequence[Mutant], folder: Path, cache: Path) -> Compiled:
    """The mutants of `text` that compile, in one module.

    Raises Rejected where the compiler's words fit no mutant: they must be tried one by one.
    """
    refused: dict[str, str] = {}
    left = list(mutants)
    while left:
        built, complaints = _attempt(text, left, folder, cache)
        if built is not None:
            entries = {mutant.name: _entry(i) for i, mutant in enumerate(left)}
            return Compiled(Module(built), entries, refused)
        blamed = _blamed(complaints)
        if not blamed and len(left) > 1:
            raise Rejected(f"no line of the compiler's names a mutant: {complaints[0]}")
        said = blamed or {0: complaints[0]}
        refused |= {left[i].name: line for i, line in said.items()}
        left = [mutant for i, mutant in enumerate(left) if i not in said]
    return Compiled(None, {}, refused)


def compile_alone(
    text: str, mutant: Mutant, build: Build, name: str, folder: Path, cache: Path
) -> Module | None:
    """A mutant in a module of its own, as the backend builds it; None where it doesn't compile.

    `name` stands for its file in findings.
    """
    out = folder / "mutant.so"
    translated = compiler.translate(mutant.apply(text), name)
    complaints = compiler.attempt(translated, out, build.value, cache, COLUMNLESS)
    return None if complaints else Module(out, name)


def _attempt(
    text: str, mutants: Sequence[Mutant], folder: Path, cache: Path
) -> tuple[Path | None, list[str]]:
    entries = [_entry(i) for i in range(len(mutants))]
    out = folder / "mutants.so"
    complaints = compiler.attempt(
        compiler.translate(joined(text, mutants), "mutants.cu", entries), out, "exact", cache, QUICKLY
    )
    return (None if complaints else out), complaints


def _entry(i: int) -> str:
    return f"mutant{i}::entry{i}"


def joined(text: str, mutants: Sequence[Mutant]) -> str:
    """One text of many: the defines and the prelude once, then every mutant in a namespace.

    What a mutant changes in the prelude hides the prelude's own in its namespace.
    """
    prelude = source.prelude()
    at = text.index(prelude) + len(prelude)
    head = text[:at]
    parts = [DEFINE_ENTRY.sub("", head)]
    for i, mutant in enumerate(mutants):
        changed = mutant.apply(text)
        begin = text.index(prelude) if mutant.start < at else at
        parts += [
            f"#define {ENTRY} entry{i}",
            f"namespace mutant{i} {{",
            f'#line {text.count(chr(10), 0, begin) + 1} "mutant{i}"',
            changed[begin:],
            "}",
            f"#undef {ENTRY}",
        ]
    return "\n".join(parts)


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
