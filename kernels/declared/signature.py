"""Reads the parameters of __global__ functions off a CUDA text: arguments are held against them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
GLOBAL = re.compile(r"\b__global__\b")
NAME_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*$")
BY_MACRO = re.compile(r"#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*__global__")
OPEN, CLOSE = "([{<", ")]}>"

# What scalar parameters are called to the type that an argument has.
TYPES = {
    "int": "i32", "int32_t": "i32", "signed": "i32", "signed int": "i32",
    "unsigned": "u32", "unsigned int": "u32", "uint32_t": "u32", "uint": "u32",
    "long long": "i64", "int64_t": "i64", "long": "i64", "long int": "i64", "long long int": "i64",
    "ptrdiff_t": "i64",
    "unsigned long long": "u64", "uint64_t": "u64", "size_t": "u64", "unsigned long": "u64",
    "unsigned long long int": "u64", "float": "f32", "double": "f64",
}  # fmt: skip
IGNORED = re.compile(r"\b(const|volatile|register|__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True)
class Parameter:
    """One parameter as it is written."""

    text: str
    pointer: bool
    dtype: str  # of declaration.DTYPES; empty where the type's name isn't one of C's

    def takes(self, dtype: str) -> bool:
        """Whether an argument of this type (empty: a buffer) fits; the sign of an integer is no matter."""
        if self.pointer or not dtype:
            return self.pointer == (not dtype)
        return not self.dtype or (self.dtype[1:] == dtype[1:] and (self.dtype[0] == "f") == (dtype[0] == "f"))


@dataclass(frozen=True)
class Signature:
    """A __global__ function: its name without namespaces, its parameters, and where it stands."""

    name: str
    parameters: tuple[Parameter, ...]
    line: int  # of the text as it is given

    def __str__(self) -> str:
        return f"{self.name}({', '.join(one.text for one in self.parameters)})"


def signatures(text: str) -> tuple[Signature, ...]:
    """Every __global__ function that stands in a text, whatever its #if branches say."""
    bare = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    return tuple(_found(bare))


def by_macro(text: str) -> bool:
    """Whether some are made by macros, so that not finding one proves nothing."""
    return bool(BY_MACRO.search(text))


def _found(bare: str) -> Iterator[Signature]:
    for match in GLOBAL.finditer(bare):
        at = match.end()
        while (at := bare.find("(", at)) >= 0:
            end = _partner(bare, at)
            name = NAME_BEFORE.search(bare, 0, at)
            if end < 0 or name is None:
                break
            if name[1] in ("__launch_bounds__", "__attribute__", "__align__", "__maxnreg__"):
                at = end
                continue
            yield Signature(name[1], tuple(_parameters(bare[at + 1 : end])), bare.count("\n", 0, at) + 1)
            break


def _partner(text: str, opened: int) -> int:
    """The index of the parenthesis that closes the one at `opened`, -1 where none does."""
    depth = 0
    for at in range(opened, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return -1


def _parameters(inside: str) -> Iterator[Parameter]:
    for part in _split(inside):
        text = " ".join(part.split())
        if text and text != "void":
            yield _parameter(text)


def _split(inside: str) -> list[str]:
    """At the commas that are in no brackets of any sort."""
    parts, depth, start = [], 0, 0
    for at, mark in enumerate(inside):
        depth += (mark in OPEN) - (mark in CLOSE)
        if mark == "," and depth == 0:
            parts.append(inside[start:at])
            start = at + 1
    return [*parts, inside[start:]]


def _parameter(text: str) -> Parameter:
    declared = text.partition("=")[0]
    if "*" in declared or declared.rstrip().endswith("]"):
        return Parameter(text, True, "")
    words = IGNORED.sub(" ", declared).replace("std::", "").split()
    names = " ".join(words[:-1]) if len(words) > 1 else " ".join(words)
    return Parameter(text, False, TYPES.get(names, ""))
