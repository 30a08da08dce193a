"""A text whose mutants are judged, and many of them as namespaces of one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernels import registry, source
from kernels.declared.units import includes
from kernels.model import Options
from kernels.mutants import ENTRY, Mutant
from workers.backend import NO_OPTIONS

DEFINE_ENTRY = re.compile(rf"^#define {ENTRY} .*$", re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
LINE = re.compile(r'^#line (\d+) "([^"\n]*)"$', re.MULTILINE)
C_LINKAGE = re.compile(r'\bextern[ \t]+"C"([ \t\n]*\{)?')


@dataclass(frozen=True)
class Text:
    """A translation unit: one of the farm's own, whose kernel is called ENTRY, or a file of a catalog."""

    text: str
    name: str  # its file in findings
    unit: str = ""  # the file of a catalog; empty for the farm's own
    entries: tuple[str, ...] = ()  # of a catalog's file: the symbols that are launched
    options: Options = NO_OPTIONS

    def joined(self, mutants: Sequence[Mutant]) -> str:
        """One text of many, a namespace each."""
        return _of_units(self.text, mutants) if self.unit else _with_prelude(self.text, mutants)

    def entries_of(self, number: int) -> list[str]:
        """What the kernels of mutant `number` of a joined text are called."""
        return [self.entry(one, number) for one in self.entries or (ENTRY,)]

    def entry(self, symbol: str, number: int) -> str:
        """What a kernel is called in a joined text."""
        return f"mutant{number}::{symbol if self.unit else f'entry{number}'}"


def texts(kernel_id: str, kind_name: str, options: Options) -> dict[str, Text]:
    """The texts of a kernel for a kind, by unit."""
    own = registry.self_contained(kernel_id)
    if own is None:
        name = f"{registry.launch_kernel(kernel_id).entry(kind_name)}.cu"
        return {"": Text(source.text(kernel_id, kind_name), name)}
    return {
        file: Text(own.text(kind_name, file), file, file, symbols, options)
        for file, symbols in own.entries(kind_name).items()
    }


def _with_prelude(text: str, mutants: Sequence[Mutant]) -> str:
    """The defines and the prelude once, then every mutant in a namespace.

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


def _of_units(text: str, mutants: Sequence[Mutant]) -> str:
    """What is included once, then every mutant in a namespace, its macros gone behind it.

    Include guards are macros, too. Functions of C's linkage would be one and the same in all namespaces.
    """
    parts = list(dict.fromkeys(line.strip() for line in includes(text)))
    gone = [f"#undef {name}" for name in dict.fromkeys(DEFINE.findall(text))]
    for i, mutant in enumerate(mutants):
        changed = mutant.apply(text)
        for line in includes(changed):
            changed = changed.replace(f"{line}\n", "\n")
        changed = C_LINKAGE.sub(lambda match: "inline namespace c {" if match[1] else "", changed)
        changed = LINE.sub(rf'#line \1 "mutant{i}/\2"', changed)
        parts += [f"namespace mutant{i} {{", f'#line 1 "mutant{i}"', changed, "}", *gone]
    return "\n".join(parts)
