"""Reads a declaration's tables key by key: every value of the wrong type becomes a mistake with its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernels.declared.expression import BadExpression, Tree, evaluate, parse
from kernels.declared.mistake import Misdeclared, Mistake, Mistakes, Place, no_such
from kernels.declared.positions import Path

TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True)
class Formula:
    """An expression and where it stands."""

    text: str
    tree: Tree
    place: Place

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value over these sizes; Misdeclared with file, line and column."""
        try:
            return evaluate(self.tree, sizes)
        except BadExpression as error:
            raise Misdeclared([Mistake(self.at(error.column), f"in {self.text!r}: {error}")]) from None

    def at(self, column: int) -> Place:
        return Place(self.place.file, self.place.line, column)


class Table:
    """One table of a declaration, with the line of everything in it."""

    def __init__(
        self,
        file: str,
        values: Mapping[str, Any],
        lines: Mapping[Path, int],
        mistakes: Mistakes,
        path: Path = (),
    ) -> None:
        self.file = file
        self.mistakes = mistakes
        self._values = values
        self._lines = lines
        self._path = path
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._values)

    def place(self, *path: str | int) -> Place:
        """The line of a key or item in this table, else the nearest around it that has one."""
        whole = (*self._path, *path)
        while whole and whole not in self._lines:
            whole = whole[:-1]
        return Place(self.file, self._lines.get(whole, 1))

    def wrong(self, text: str, *path: str | int) -> None:
        self.mistakes.add(self.place(*path), text)

    def get(self, key: str, *types: type) -> Any:
        """The value of a key if it has one of these types, else None, and a mistake where it is another."""
        self._read.add(key)
        value = self._values.get(key)
        if value is None or self._fits(value, types):
            return value
        self.wrong(f"{key} = {short(value)}: want {' or '.join(TYPES[one] for one in types)}", key)
        return None

    @staticmethod
    def _fits(value: Any, types: Iterable[type]) -> bool:
        return type(value) in types or (float in types and type(value) is int)

    def text(self, key: str, default: str = "") -> str:
        value = self.get(key, str)
        return default if value is None else value

    def whole(self, key: str, default: int = 0) -> int:
        value = self.get(key, int)
        return default if value is None else value

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, bool)
        return default if value is None else value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value = self.get(key, list, str)
        if isinstance(value, str):
            return (value,)
        items = value or []
        for number, item in enumerate(items):
            if not isinstance(item, str):
                self.wrong(f"{key}: {short(item)} where a text should be", key, number)
        return tuple(item for item in items if isinstance(item, str))

    def one_of(self, key: str, known: Iterable[str], default: str = "") -> str:
        """A text that is one of those known; anything else is a mistake that names them."""
        value = self.text(key, default)
        if value and value not in (names := list(known)):
            self.wrong(no_such(key.replace("_", " "), value, names), key)
            return default
        return value

    def table(self, key: str) -> Table:
        """A table of this one; where there is none, an empty one."""
        value = self.get(key, dict)
        return Table(self.file, value or {}, self._lines, self.mistakes, (*self._path, key))

    def tables(self, key: str) -> list[Table]:
        """The tables of a [[list]]."""
        value = self.get(key, list) or []
        found = []
        for number, item in enumerate(value):
            if isinstance(item, dict):
                path = (*self._path, key, number)
                found.append(Table(self.file, item, self._lines, self.mistakes, path))
            else:
                self.wrong(f"{key}: {short(item)} where a table should be: write [[{key}]]", key, number)
        return found

    def formula(self, key: str, default: str = "") -> Formula | None:
        """An expression, or a number that stands for itself."""
        value = self.get(key, str, int)
        return (
            self.formula_of(default if value is None else value, key)
            if value is not None or default
            else None
        )

    def formulas(self, key: str) -> tuple[Formula, ...]:
        """A list of expressions and numbers; a single one is a list of one."""
        value = self.get(key, list, str, int)
        if value is None:
            return ()
        items = value if isinstance(value, list) else [value]
        paths = [(key, number) if isinstance(value, list) else (key,) for number in range(len(items))]
        found = [self.formula_of(item, *path) for item, path in zip(items, paths, strict=True)]
        return tuple(one for one in found if one)

    def count(self, key: str) -> int:
        """How many items a list has; a single value is one."""
        value = self._values.get(key)
        return len(value) if isinstance(value, list) else 1

    def formula_of(self, value: Any, *path: str | int) -> Formula | None:
        if type(value) not in (str, int):
            self.wrong(f"{path[0]}: {short(value)} where a number or an expression should be", *path)
            return None
        place, text = self.place(*path), str(value)
        try:
            return Formula(text, parse(text), place)
        except BadExpression as error:
            self.mistakes.add(Place(place.file, place.line, error.column), f"in {text!r}: {error}")
            return None

    def done(self, noun: str) -> None:
        """Names every key that nobody has read."""
        for key in self._values:
            if key not in self._read:
                self.wrong(no_such(f"key of {noun}", key, sorted(self._read)), key)


def short(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
