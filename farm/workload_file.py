"""Shapes from elsewhere: a file of (op, shape, count), or of FlashInfer-Bench's workloads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farm.flashinfer import Definitions, NoOp, shape_of
from kernels import catalog, registry
from kernels.catalog import Use
from kernels.errors import UsageError
from kernels.model import Shape

MOST_COUNT = 10**15  # of one line: sums stay far below what JSON readers keep exactly
Line = tuple[int, Mapping[str, Any]]  # its number in the file, from 1


class Mistakes(UsageError):
    """What is wrong with a file, each on a line of its own: FILE:LINE: what, and what is wanted."""

    def __init__(self, path: Path, lines: tuple[str, ...]) -> None:
        super().__init__(f"{path}: {len(lines)} mistakes; nothing was submitted")
        self.lines = lines


@dataclass(frozen=True)
class Left:
    """Uses that no op of ours computes."""

    what: str  # a definition's name
    reason: str
    count: int


@dataclass(frozen=True)
class Read:
    """What a file asks for, equal shapes together with their counts summed."""

    uses: tuple[Use, ...]  # most used first
    left: tuple[Left, ...]


def read(path: Path) -> Read:
    """The uses of a file; Mistakes names every line that is wrong, OSError a file that can't be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text ({error.reason} at byte {error.start})") from None
    found = _Found(path, Definitions(path))
    found.take_all(_csv_lines(text) if path.suffix.lower() == ".csv" else _json_lines(text))
    if found.mistakes:
        raise Mistakes(path, tuple(found.mistakes))
    if not found.uses and not found.left:
        raise UsageError(f"{path} has no workload; write lines of op,shape,count or FlashInfer-Bench's JSON")
    uses = [Use(op, shape, count) for (op, shape), count in found.uses.items()]
    left = tuple(Left(what, reason, count) for (what, reason), count in found.left.items())
    return Read(tuple(sorted(uses, key=lambda use: -use.count)), left)


class _Found:
    """What was read so far."""

    def __init__(self, path: Path, definitions: Definitions) -> None:
        self._path = path
        self._definitions = definitions
        self.uses: dict[tuple[str, Shape], int] = {}
        self.left: dict[tuple[str, str], int] = {}
        self.mistakes: list[str] = []

    def take_all(self, lines: Iterator[Line]) -> None:
        """Every line in turn; what can't be read as lines at all is a mistake too."""
        try:
            for number, entry in lines:
                try:
                    self._take(entry)
                except UsageError as error:
                    self.mistakes.append(f"{self._path}:{number}: {error}")
        except _Unreadable as error:
            self.mistakes.append(f"{self._path}:{error.number}: {error}")

    def _take(self, entry: Mapping[str, Any]) -> None:
        if "op_type" in entry:
            self._definitions.add(entry)
        elif "op" in entry or "shape" in entry:
            self._add(*_plain(entry), count_of(entry))
        else:
            self._take_workload(entry)

    def _take_workload(self, entry: Mapping[str, Any]) -> None:
        """A Trace with its workload, or a workload alone, whose definition the file is named after."""
        workload = entry.get("workload", entry)
        axes = workload.get("axes") if isinstance(workload, dict) else None
        if not isinstance(axes, dict):
            raise UsageError("got neither op and shape nor a workload with axes")
        name = entry.get("definition", self._path.stem)
        if not isinstance(name, str):
            raise UsageError(f"definition: got {name!r}, want a name")
        try:
            op, shape = shape_of(self._definitions.named(name), axes)
        except NoOp as reason:
            self.left[name, str(reason)] = self.left.get((name, str(reason)), 0) + count_of(entry)
            return
        self._add(op, shape, count_of(entry))

    def _add(self, op: str, shape: Shape, count: int) -> None:
        self.uses[op, shape] = self.uses.get((op, shape), 0) + count


def _plain(entry: Mapping[str, Any]) -> tuple[str, Shape]:
    """op and shape, the latter as on the command line or as a list of its sizes."""
    for name in ("op", "shape"):
        if not entry.get(name):
            raise UsageError(f"no {name}; a line needs op and shape")
    op, shape = registry.op(str(entry["op"])), entry["shape"]
    text = "x".join(map(str, shape)) if isinstance(shape, list) else str(shape)
    return op.name, catalog.parse_shape(text, op)


def count_of(entry: Mapping[str, Any]) -> int:
    """How often the shape is used; 1 where nothing says so."""
    given = entry.get("count")
    if given in (None, ""):
        return 1
    text = str(given).strip()
    whole = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_COUNT))
    if isinstance(given, bool) or not whole or not 1 <= int(text) <= MOST_COUNT:
        raise UsageError(f"count: got {text[:40]!r}, want a whole number from 1 to {MOST_COUNT:,}")
    return int(text)


class _Unreadable(Exception):
    """From line `number` on the text isn't what it should be."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


def _csv_lines(text: str) -> Iterator[Line]:
    """A header that has op and shape, then a line each."""
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    header = [name.strip().lower() for name in reader.fieldnames or ()]
    if not {"op", "shape"} <= set(header):
        raise _Unreadable(1, f"header: got {','.join(header)[:60] or 'nothing'}, want op,shape,count")
    reader.fieldnames = header
    try:
        for row in reader:
            yield (
                reader.line_num,
                {name: value.strip() for name, value in row.items() if isinstance(value, str)},
            )
    except csv.Error as error:
        raise _Unreadable(reader.line_num, str(error)) from None


def _json_lines(text: str) -> Iterator[Line]:
    """Objects one after the other, in a list or not; each with the number of the line that it begins on."""
    decoder, at, end = json.JSONDecoder(), 0, len(text)
    listed = text.lstrip().startswith("[")
    at = text.index("[") + 1 if listed else 0
    while (at := _next(text, at, ",]" if listed else "")) < end:
        number = text.count("\n", 0, at) + 1
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _Unreadable(number, f"no JSON: {getattr(error, 'msg', error)}") from None
        if not isinstance(entry, dict):
            raise _Unreadable(number, f"got {json.dumps(entry)[:40]}, want an object")
        yield number, entry


def _next(text: str, at: int, between: str) -> int:
    """Where the next object begins: past blanks and what stands between objects."""
    while at < len(text) and (text[at].isspace() or text[at] in between):
        at += 1
    return at
