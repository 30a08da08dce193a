"""Mutants that no case can kill, each with the argument why: read from equivalents.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from kernels.errors import FarmError
from kernels.mutants import Mutant

NAME = "equivalents.toml"  # in a user's catalog too, beside the declarations
FILE = f"kernels/{NAME}"
EVERY = "*"
FIELDS = ("kernels", "kinds", "mutant", "now", "why")


@dataclass(frozen=True)
class Equivalent:
    """One entry: a mutant of some texts, its line as it is after the change, and the argument in words."""

    kernels: tuple[str, ...]  # op/name
    kinds: tuple[str, ...]  # names, or * for all
    mutant: str
    now: str
    why: str

    def is_about(self, kernel_id: str, kind_name: str) -> bool:
        return kernel_id in self.kernels and (self.kinds == (EVERY,) or kind_name in self.kinds)


@cache
def equivalents() -> tuple[Equivalent, ...]:
    """The catalog's entries; FarmError in one line where the file isn't as it should be."""
    return parse((files("kernels") / NAME).read_text(encoding="utf8"))


def read(path: Path) -> tuple[Equivalent, ...]:
    """The entries of a file beside a user's catalog; none where it isn't there."""
    try:
        return parse(path.read_text(encoding="utf8"), str(path)) if path.exists() else ()
    except UnicodeDecodeError as error:
        raise FarmError(f"{path}: byte {error.start} is no UTF-8; save the file as UTF-8") from None


def parse(text: str, file: str = FILE) -> tuple[Equivalent, ...]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FarmError(f"{file} is no TOML: {error}") from None
    listed = found.get("equivalent", [])
    if set(found) - {"equivalent"} or not _are(listed, dict):
        raise FarmError(f"{file}: want [[equivalent]] and nothing else, got {', '.join(found)}")
    return tuple(_entry(f"{file}: entry {number}", entry) for number, entry in enumerate(listed, start=1))


def _entry(where: str, entry: Mapping[str, Any]) -> Equivalent:
    if sorted(entry) != sorted(FIELDS):
        raise FarmError(f"{where} has {', '.join(entry)}; want {', '.join(FIELDS)}")
    for name in ("kernels", "kinds"):
        if not _are(entry[name], str):
            raise FarmError(f"{where} has {name} = {entry[name]!r}; want a list of texts")
    texts = {name: str(entry[name]).strip() for name in ("mutant", "now", "why")}
    if missing := [name for name, value in texts.items() if not value]:
        raise FarmError(f"{where} has an empty {missing[0]}; every entry gives its argument")
    return Equivalent(tuple(entry["kernels"]), tuple(entry["kinds"]), **texts)


def _are(items: Any, kind: type) -> bool:
    """Whether it is a list of such items."""
    return isinstance(items, list) and all(isinstance(item, kind) for item in items)


def changed_line(text: str, mutant: Mutant) -> str:
    """The mutant's line after the change, without the blanks around it."""
    return mutant.apply(text).splitlines()[mutant.line - 1].strip()


def faults(
    entries: Sequence[Equivalent],
    texts: Mapping[str, str],
    mutants: Sequence[Mutant],
    alive: Collection[str],
) -> list[str]:
    """Why entries about texts, by unit, don't apply any more: no such mutant, another change, a dead one.

    `alive` has those too of which the compiler makes the right kernel's code.
    """
    by_name = {mutant.name: mutant for mutant in mutants}
    lines = []
    for entry in entries:
        mutant = by_name.get(entry.mutant)
        if mutant is None:
            lines.append(f"{entry.mutant}: there is no such mutant any more")
        elif (now := changed_line(texts[mutant.unit], mutant)) != entry.now:
            lines.append(f"{entry.mutant}: its line is now {now!r}, the entry argues about {entry.now!r}")
        elif entry.mutant not in alive:
            lines.append(f"{entry.mutant}: a rule kills it now, so it isn't equivalent")
    return lines
