"""In which line of a TOML text each key and each item stands: what tomllib doesn't say.

The text is known to be TOML, so that this only needs to find its way: it reads names and skips values.
"""

from __future__ import annotations

import tomllib
from collections import Counter

Path = tuple[str | int, ...]  # ("step", 0, "args", 2)

BARE_ENDS = ",]}#\n"


def lines(text: str) -> dict[Path, int]:
    """The line, counted from 1, of every table, key and item by its path; those of a broken text are none."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[Path, int] = {}
        self._arrays: Counter[Path] = Counter()  # tables seen of each array of tables

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._blank()
            if self._at >= len(self._text):
                return self._found
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    @property
    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _header(self) -> Path:
        """[a.b] or [[a.b]]: the path of what follows."""
        line, many = self._line, self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        keys = self._keys()
        self._at += 2 if many else 1
        path = (*self._inside(keys[:-1]), keys[-1])
        for end in range(1, len(path) + 1):  # [a.b] may be the first to name a
            self._found.setdefault(path[:end], line)
        if many:
            path = (*path, self._arrays[path])
            self._arrays[path[:-1]] += 1
            self._found[path] = line
        return path

    def _inside(self, keys: list[str]) -> Path:
        """The path of a table, through the last table of every array of tables on the way."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if count := self._arrays[path]:
                path = (*path, count - 1)
        return path

    def _pair(self, table: Path) -> None:
        """key = value, with its line."""
        line = self._line
        path = table
        for key in self._keys():
            path = (*path, key)
            self._found.setdefault(path, line)
        self._at += 1  # the equals sign
        self._value(path)

    def _keys(self) -> list[str]:
        """A dotted key: bare and quoted names."""
        keys = []
        while True:
            self._space()
            start = self._at
            if self._text[start] in "\"'":
                self._string()
                (name,) = tomllib.loads(f"k = {self._text[start : self._at]}").values()
                keys.append(str(name))
            else:
                while self._text[self._at] not in ".=] \t":
                    self._at += 1
                keys.append(self._text[start : self._at])
            self._space()
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _value(self, path: Path) -> None:
        self._space()
        first = self._text[self._at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._items(path)
        elif first == "{":
            self._inline(path)
        else:
            while self._at < len(self._text) and self._text[self._at] not in BARE_ENDS:
                self._at += 1

    def _items(self, path: Path) -> None:
        self._at += 1
        number = 0
        while True:
            self._blank()
            if self._text[self._at] == "]":
                break
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._found[*path, number] = self._line
            self._value((*path, number))
            number += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while True:
            self._blank()
            if self._text[self._at] == "}":
                break
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._pair(path)
        self._at += 1

    def _string(self) -> None:
        """Any of the four kinds of strings."""
        mark = self._text[self._at]
        long = self._text.startswith(mark * 3, self._at)
        ends = mark * 3 if long else mark
        self._at += len(ends)
        while not self._text.startswith(ends, self._at):
            self._at += 2 if mark == '"' and self._text[self._at] == "\\" else 1
        self._at += len(ends)
        while long and self._at < len(self._text) and self._text[self._at] == mark:
            self._at += 1  # up to two quotes may stand before the three that end it

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1

    def _blank(self) -> None:
        """Spaces, line ends and comments."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at] not in " \t\n\r":
                return
            else:
                self._at += 1
