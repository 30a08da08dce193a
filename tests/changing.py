"""JSON values with one place changed: what nobody would write, and what is of another type."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]  # names of objects' members and places in lists, outermost first

NASTY: tuple[Any, ...] = (
    "a\0b", "\ud800", "x" * 600, "'; DROP TABLE job; --", "", "\x1b[2J", -1, 2**31, 2**63, 10**400, 1e308,
    "nan", None, True, [], {}, [[[]]],
)  # fmt: skip
OF_TYPES: tuple[Any, ...] = ("text", 7, True, ["text"], {"text": 7})  # one value of each type of JSON


def leaves(data: Any, *path: Any) -> Iterator[Path]:
    """The paths of everything in a JSON value, containers too."""
    if path:
        yield path
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, item in pairs:
        yield from leaves(item, *path, name)


def at(data: Any, path: Path) -> Any:
    for name in path:
        data = data[name]
    return data


def changed(data: Any, path: Path, value: Any) -> Any:
    made = copy.deepcopy(data)
    at(made, path[:-1])[path[-1]] = value
    return made


def of_other_types(data: Any) -> Iterator[tuple[Path, Any]]:
    """The value with each place in turn of the four types that it isn't of; null, which may be, is none."""
    for path in leaves(data):
        for value in OF_TYPES:
            if at(data, path) is not None and _kind(value) != _kind(at(data, path)):
                yield path, changed(data, path, value)


def _kind(value: Any) -> str:
    """The type of a JSON value: whole numbers and others are one."""
    return "number" if type(value) in (int, float) else type(value).__name__


def nested(levels: int, around: str = "7") -> str:
    """The text of a list in a list in a list …"""
    return "[" * levels + around + "]" * levels
