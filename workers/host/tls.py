"""Reads from a shared object how much static shared memory each kernel has: its thread-local symbols."""

from __future__ import annotations

import re
import struct
from pathlib import Path

STT_TLS, SHT_SYMTAB = 6, 2
RUNTIME_SYMBOL = "farm_band_"  # the bands around the shared memory are the scheduler's own


def sizes(path: Path) -> dict[str, int]:
    """Mangled name -> bytes of every thread-local variable of a 64-bit little-endian ELF file."""
    image = path.read_bytes()
    (table,) = struct.unpack_from("<Q", image, 0x28)
    width, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * width) for i in range(count)]
    found = {}
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, _, _, size = struct.unpack_from("<IBBHQQ", image, at)
            if info & 0xF == STT_TLS:
                found[image[names + name : image.index(b"\0", names + name)].decode()] = size
    return {name: size for name, size in found.items() if RUNTIME_SYMBOL not in name}


def shared_bytes(sizes: dict[str, int], entry: str) -> int:
    """An entry's own shared variables, and those outside of any other `extern "C"` function."""
    total = 0
    for name, size in sizes.items():
        owner = re.match(r"_ZZ(\d+)(\w+)", name)
        if owner and owner[2][: int(owner[1])] != entry and owner[2][int(owner[1])] == "E":
            continue
        total += size
    return total
