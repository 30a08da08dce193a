"""What is wrong in a catalog and where: mistakes are collected, so that one look finds all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kernels.errors import UsageError


@dataclass(frozen=True, order=True)
class Place:
    """A spot in a file of a pack."""

    file: str
    line: int = 1
    column: int = 0  # 0: the whole line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, order=True)
class Mistake:
    """One line about one spot: what, the value, the limit, the remedy."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class Misdeclared(UsageError):
    """A catalog with mistakes; the message is the first one and how many follow."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        more = f" (and {len(mistakes) - 1} more; farm catalog check lists them)" if mistakes[1:] else ""
        super().__init__(f"{mistakes[0]}{more}")


class Mistakes:
    """The mistakes found so far, each once."""

    def __init__(self) -> None:
        self._found: dict[Mistake, None] = {}

    def add(self, place: Place, text: str) -> None:
        self._found[Mistake(place, text)] = None

    def __len__(self) -> int:
        return len(self._found)

    @property
    def found(self) -> tuple[Mistake, ...]:
        """By file and line."""
        return tuple(sorted(self._found))


def no_such(noun: str, name: str, known: Iterable[str]) -> str:
    """no kind named 'Q8_O'; did you mean 'Q8_0'? There are …"""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, 1, 0.6) or get_close_matches(name.upper(), names, 1, 0.6)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    there = "there are" if guess == ";" else "There are"
    return f"no {noun} named {name!r}{guess} {there} {', '.join(names) or 'none'}"
