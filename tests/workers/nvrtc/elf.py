"""Writes small ELF files, so that the reader is tested without a compiler."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from workers.nvrtc.cubin import HEADER, SECTION, SYMBOL

PROGBITS, SYMTAB, STRTAB, RELA, NOTE = 1, 2, 3, 4, 7


@dataclass(frozen=True)
class Part:
    """A section to be written."""

    name: str
    data: bytes
    type: int = PROGBITS
    link: int = 0


def strings(*names: str) -> bytes:
    return b"\0" + b"".join(name.encode() + b"\0" for name in names)


def symbols(*offsets: int) -> bytes:
    """A symbol table: the null symbol, then one per offset of a name."""
    return b"".join(SYMBOL.pack(at, 0, 0, 0, 0, 0) for at in (0, *offsets))


def relocation(at: int, symbol: int, kind: int = 2, addend: int = 0) -> bytes:
    return struct.pack("<QQq", at, symbol << 32 | kind, addend)


def elf(*parts: Part) -> bytes:
    """An ELF file of these sections, numbered from 1, with the table of their names last."""
    table = strings(*(part.name for part in parts), ".shstrtab")
    every = [Part("", b"", 0), *parts, Part(".shstrtab", table, STRTAB)]
    body, rows = b"", []
    for part in every:
        at = table.find(b"\0" + part.name.encode() + b"\0") + 1 if part.name else 0
        rows.append(
            SECTION.pack(at, part.type, 0, 0, HEADER.size + len(body), len(part.data), part.link, 0, 1, 0)
        )
        body += part.data
    header = HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 2, 190, 1, 0, 0, HEADER.size + len(body), 0,
        HEADER.size, 0, 0, SECTION.size, len(every), len(every) - 1,
    )  # fmt: skip
    return header + body + b"".join(rows)
