"""Shapes from FlashInfer-Bench: what a definition and a workload's axes are as one of our ops."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernels.errors import UsageError
from kernels.model import Shape

LONGEST_SIZE = 18  # digits, as the command line takes


@dataclass(frozen=True)
class OpType:
    """Which op an op type is, and what our axes are called there."""

    op: str
    axes: tuple[tuple[str, str], ...]  # (ours, theirs), in the order of our grammar
    letters: tuple[tuple[str, str], ...] = ()  # how a definition's name abbreviates constant axes


# Their M tokens, N outputs and K inputs are our batch, rows and cols; one token is a matvec.
OP_TYPES = {
    "gemm": OpType("mul_mm", (("rows", "N"), ("cols", "K"), ("batch", "M")), (("n", "N"), ("k", "K"))),
    "rmsnorm": OpType(
        "rmsnorm",
        (("n", "hidden_size"), ("rows", "batch_size")),
        (("h", "hidden_size"), ("d", "hidden_size")),
    ),
}
FUSED = "fused_add_"  # in front of rmsnorm in a definition's name: with a residual


@dataclass(frozen=True)
class Definition:
    """What is computed, without the sizes that vary."""

    name: str
    op_type: str
    constants: tuple[tuple[str, int], ...]


class NoOp(Exception):
    """A workload that none of our ops computes; the message says why. No mistake of the file's."""


class Definitions:
    """The definitions that a file's lines may name: its own, those of its data set, or what a name says."""

    def __init__(self, file: Path) -> None:
        self._folders = [folder / "definitions" for folder in file.resolve().parents]
        self._known: dict[str, Definition] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        """A definition's own JSON; UsageError where it has no name, op type or axes."""
        found = definition(entry)
        self._known[found.name] = found

    def named(self, name: str) -> Definition:
        """From the file, else from definitions/*/NAME.json in a folder above, else by the name itself."""
        if name not in self._known:
            self._known[name] = self._from_folder(name) or from_name(name)
        return self._known[name]

    def _from_folder(self, name: str) -> Definition | None:
        if "/" in name or name.startswith("."):
            return None
        for folder in self._folders:
            for path in sorted(folder.glob(f"*/{name}.json")) if folder.is_dir() else ():
                try:
                    return definition(json.loads(path.read_text(encoding="utf8")))
                except ValueError as error:
                    raise UsageError(f"definition {name!r} in {path}: {error}") from None
        return None


def definition(entry: Mapping[str, Any]) -> Definition:
    """A definition's JSON: name, op_type, and axes that are constants or not."""
    name, op_type, axes = entry.get("name"), entry.get("op_type"), entry.get("axes")
    if not isinstance(name, str) or not isinstance(op_type, str) or not isinstance(axes, dict):
        raise UsageError("a definition needs name, op_type and axes")
    fixed = {
        axis: size(axis, value.get("value"))
        for axis, value in axes.items()
        if isinstance(value, dict) and value.get("type") == "const"
    }
    return Definition(name, op_type, tuple(fixed.items()))


@cache
def from_name(name: str) -> Definition:
    """gemm_n4096_k14336 and rmsnorm_h4096: an op type and its constant axes."""
    bare = name.removeprefix(FUSED)
    for op_type, ours in OP_TYPES.items():
        if bare.startswith(f"{op_type}_"):
            letters = dict(ours.letters)
            tokens = re.findall(r"_([a-z]+)_?(\d+)", bare.removeprefix(op_type))
            return Definition(
                name,
                op_type,
                tuple((letters[word], int(digits)) for word, digits in tokens if word in letters),
            )
    return Definition(name, re.split(r"_[a-z]+_?\d", name)[0], ())


def shape_of(found: Definition, axes: Mapping[str, Any]) -> tuple[str, Shape]:
    """(op, shape); NoOp where no op of ours computes it, UsageError where an axis has no size."""
    known = OP_TYPES.get(found.op_type)
    if known is None:
        raise NoOp(f"no op for op type {found.op_type!r}; there is one for {', '.join(OP_TYPES)}")
    sizes = dict(found.constants) | {axis: size(axis, value) for axis, value in axes.items()}
    for _, theirs in known.axes:
        if theirs not in sizes:
            raise UsageError(f"definition {found.name!r} has no size for axis {theirs}; give it in axes")
    ours = {axis: sizes[theirs] for axis, theirs in known.axes}
    return _narrowed(known.op, found.name.startswith(FUSED), ours)


def _narrowed(op: str, fused: bool, sizes: dict[str, int]) -> tuple[str, Shape]:
    """One token's product is a matvec; a norm with a residual is an op of its own, of one row."""
    if op == "mul_mm" and sizes["batch"] == 1:
        return "matvec", Shape.of(rows=sizes["rows"], cols=sizes["cols"])
    if op == "rmsnorm" and fused:
        if sizes["rows"] != 1:
            raise NoOp(f"add_rmsnorm takes one row, batch_size is {sizes['rows']}")
        return "add_rmsnorm", Shape.of(n=sizes["n"])
    return op, Shape.of(**sizes)


def size(axis: str, value: object) -> int:
    """A size as a file gives it; UsageError says what it should be."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or len(str(value)) > LONGEST_SIZE:
        raise UsageError(f"axis {axis}: got {str(value)[:40]!r}, want a whole number from 1 on")
    return value
