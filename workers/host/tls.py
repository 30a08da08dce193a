"""Reads from a shared object where each kernel's static shared memory lies: its thread-local symbols."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STT_TLS, SHT_SYMTAB = 6, 2
# The bands around the shared memory are the scheduler's own.
RUNTIME_SYMBOL, BAND_BEFORE, BAND_BEHIND = "farm_band_", "farm_band_before", "farm_band_behind"


@dataclass(frozen=True)
class Variable:
    """A thread-local variable: where it lies in the module's segment."""

    name: str  # mangled
    offset: int
    nbytes: int

    @property
    def is_shared(self) -> bool:
        """Whether it is the text's."""
        return RUNTIME_SYMBOL not in self.name and not self.is_guard

    @property
    def is_guard(self) -> bool:
        """Whether a compiler keeps in it that another variable is initialized."""
        return self.name.startswith("_ZGV")

    @property
    def plain_name(self) -> str:
        """tile, of _ZZ1kE4tile"""
        found = re.match(r"_ZZ\w*?E(\d+)(\w+)$", self.name)
        return found[2][: int(found[1])] if found else self.name


def variables(path: Path) -> tuple[Variable, ...]:
    """Every thread-local variable of a 64-bit little-endian ELF file."""
    return tuple(_variables(path.read_bytes()))


def _variables(image: bytes) -> Iterator[Variable]:
    (table,) = struct.unpack_from("<Q", image, 0x28)
    width, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * width) for i in range(count)]
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, _, offset, size = struct.unpack_from("<IBBHQQ", image, at)
            if info & 0xF == STT_TLS:
                text = image[names + name : image.index(b"\0", names + name)].decode()
                yield Variable(text, offset, size)


def sizes(path: Path) -> dict[str, int]:
    """Mangled name -> bytes of every variable of the text."""
    return {one.name: one.nbytes for one in variables(path) if one.is_shared}


def shared_segment(path: Path) -> tuple[tuple[Variable, ...], int]:
    """The text's variables with their offsets from the start of static shared memory, and its bytes."""
    found = variables(path)
    before = next(one for one in found if BAND_BEFORE in one.name)
    behind = next(one for one in found if BAND_BEHIND in one.name)
    start = before.offset + before.nbytes
    own = [one for one in found if RUNTIME_SYMBOL not in one.name]
    moved = tuple(Variable(one.name, one.offset - start, one.nbytes) for one in own)
    return tuple(sorted(moved, key=lambda one: one.offset)), behind.offset - start


def shared_bytes(sizes: dict[str, int], entry: str) -> int:
    """An entry's own shared variables, and those outside of any other `extern "C"` function."""
    total = 0
    for name, size in sizes.items():
        owner = re.match(r"_ZZ(\d+)(\w+)", name)
        if owner and owner[2][: int(owner[1])] != entry and owner[2][int(owner[1])] == "E":
            continue
        total += size
    return total
