"""One file per format, each with one constant EXPORT; finds them by folder and names what exists."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from db.sabotage import Score
from db.session import Session
from farm.marks import timestamp
from farm.matrix import Cell, Matrix
from kernels import codec
from kernels.errors import UnknownName, UsageError


@dataclass(frozen=True)
class Export:
    """A format: how it is called and how a matrix, one column per board, becomes its text."""

    name: str
    render: Callable[[Matrix], str]


@dataclass(frozen=True)
class Folder:
    """Files to be written, and a line about them."""

    files: Mapping[str, str]  # path in the folder to text
    line: str


@dataclass(frozen=True)
class FolderExport:
    """A format that is a folder, and that needs lines, too."""

    name: str
    render: Callable[[Session, Matrix], Folder]


def names() -> list[str]:
    """Every format's name: its file's, with hyphens."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def found(name: str) -> Export | FolderExport:
    if name not in names():
        raise UnknownName("format", name, names())
    chosen: Export | FolderExport = import_module(f"{__name__}.{name.replace('-', '_')}").EXPORT
    return chosen


def export(name: str) -> Export:
    """A format that is one text."""
    chosen = found(name)
    if isinstance(chosen, FolderExport):
        raise UsageError(f"{name} is a folder of files, not one; farm export writes it")
    return chosen


def record(cell: Cell) -> dict[str, Any]:
    """A cell under the names of the JSON schema; figures that aren't finite become None."""
    values = {f.name: getattr(cell, f.name) for f in fields(Cell)}
    last_run_us = values.pop("last_run_us")
    behind = {name: values.pop(name) for name in ("reason", "packing", "trust")}
    values = {name: _finite(value) for name, value in values.items()}
    last_run = None if last_run_us is None else timestamp(last_run_us)
    return values | {"last_run": last_run} | behind


def score_record(score: Score) -> dict[str, Any]:
    """A text's mutants under the names of the JSON schema."""
    values: dict[str, Any] = codec.encode(score)
    ran_us = values.pop("ran_us")
    killed = {"killed": dict(score.killed), "score": round(score.score, 4)}
    return values | killed | {"last_run": timestamp(ran_us)}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
