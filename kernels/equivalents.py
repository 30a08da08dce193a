"""Mutants that no case can kill, each with the argument why: read from equivalents.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kernels.errors import FarmError
from kernels.mutants import Mutant

FILE = "kernels/equivalents.toml"
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
    return parse((files("kernels") / "equivalents.toml").read_text(encoding="utf8"))


def parse(text: str) -> tuple[Equivalent, ...]:
    try:
        listed = tomllib.loads(text).get("equivalent", [])
    except tomllib.TOMLDecodeError as error:
        raise FarmError(f"{FILE} is no TOML: {error}") from None
    return tuple(_entry(number, entry) for number, entry in enumerate(listed, start=1))


def _entry(number: int, entry: Mapping[str, Any]) -> Equivalent:
    if sorted(entry) != sorted(FIELDS):
        raise FarmError(f"{FILE}: entry {number} has {', '.join(entry)}; want {', '.join(FIELDS)}")
    texts = {name: str(entry[name]).strip() for name in ("mutant", "now", "why")}
    if missing := [name for name, value in texts.items() if not value]:
        raise FarmError(f"{FILE}: entry {number} has an empty {missing[0]}; every entry gives its argument")
    return Equivalent(tuple(entry["kernels"]), tuple(entry["kinds"]), **texts)


def changed_line(text: str, mutant: Mutant) -> str:
    """The mutant's line after the change, without the blanks around it."""
    return mutant.apply(text).splitlines()[mutant.line - 1].strip()


def faults(
    entries: Sequence[Equivalent], text: str, mutants: Sequence[Mutant], alive: Collection[str]
) -> list[str]:
    """Why entries about a text don't apply any more: no such mutant, another change, or a dead one."""
    by_name = {mutant.name: mutant for mutant in mutants}
    lines = []
    for entry in entries:
        mutant = by_name.get(entry.mutant)
        if mutant is None:
            lines.append(f"{entry.mutant}: there is no such mutant any more")
        elif (now := changed_line(text, mutant)) != entry.now:
            lines.append(f"{entry.mutant}: its line is now {now!r}, the entry argues about {entry.now!r}")
        elif entry.mutant not in alive:
            lines.append(f"{entry.mutant}: a rule kills it now, so it isn't equivalent")
    return lines
