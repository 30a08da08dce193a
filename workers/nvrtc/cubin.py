"""Reads a cubin, which is an ELF file: its sections, and a digest of what the GPU executes and reads."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kernels.errors import FarmError

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
RELOCATIONS = {4: struct.Struct("<QQq"), 9: struct.Struct("<QQ")}  # by section type: Elf64_Rela, Elf64_Rel
NOBITS = 8  # a section that takes memory and no bytes of the file

# What runs, and what it reads: constant banks, and the `__device__ const` tables in global memory. Notes,
# debug frames and the compiler's second representation (merc) differ between tools of one version family.
COUNTED = (".text.", ".nv.constant", ".nv.global")
RELOCATES = (".rel.text.", ".rela.text.", ".rel.nv.", ".rela.nv.")


class BadCubin(FarmError):
    """Bytes that are no ELF file for a GPU, or one cut short."""


@dataclass(frozen=True)
class Section:
    """One section of an ELF file."""

    name: str
    type: int
    size: int  # bytes, in memory too
    link: int  # number of another section
    data: bytes  # empty where it takes no bytes of the file


def sections(cubin: bytes) -> tuple[Section, ...]:
    """Every section, in the file's order; BadCubin where it isn't a 64-bit little-endian ELF file."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise BadCubin(
            f"no cubin: it begins with {cubin[:6]!r}, an ELF file of 64 bits with b'\\x7fELF\\x02\\x01'"
        )
    try:
        return tuple(_sections(cubin))
    except (struct.error, IndexError):
        raise BadCubin(f"a cubin of {len(cubin)} bytes that ends too early") from None


def _sections(cubin: bytes) -> Iterator[Section]:
    header = HEADER.unpack_from(cubin)
    table, entry_bytes, count, names_at = header[6], header[11], header[12], header[13]
    raw = [SECTION.unpack_from(cubin, table + number * entry_bytes) for number in range(count)]
    names = _body(cubin, raw[names_at])
    for fields in raw:
        yield Section(_string(names, fields[0]), fields[1], fields[5], fields[6], _body(cubin, fields))


def _body(cubin: bytes, fields: tuple[int, ...]) -> bytes:
    kind, offset, size = fields[1], fields[4], fields[5]
    if kind in (0, NOBITS):
        return b""
    body = cubin[offset : offset + size]
    if len(body) != size:
        raise IndexError
    return body


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode() if at < len(table) else ""


def digest(cubin: bytes) -> str:
    """SHA-256 over code, constants and relocations, each with its section's name, whatever their order."""
    found = sections(cubin)
    sha = hashlib.sha256()
    for section in sorted(found, key=lambda section: section.name):
        if section.name.startswith(COUNTED):
            _add(sha, section.name, section.size.to_bytes(8, "little"), section.data)
        elif section.name.startswith(RELOCATES) and section.type in RELOCATIONS:
            _add(sha, section.name, *sorted(_relocations(section, found)))
    return sha.hexdigest()


def code(cubin: bytes, entry: str) -> bytes:
    """The machine code of one entry; BadCubin where there is none."""
    for section in sections(cubin):
        if section.name == f".text.{entry}":
            return section.data
    raise BadCubin(f"a cubin without code of {entry}")


def _add(sha: hashlib._Hash, name: str, *parts: bytes) -> None:
    for part in (name.encode(), *parts):
        sha.update(len(part).to_bytes(8, "little"))
        sha.update(part)


def _relocations(section: Section, found: tuple[Section, ...]) -> Iterator[bytes]:
    """Place, type, symbol by name, and addend: a symbol's number is the linker's own affair."""
    symbols = found[section.link]
    names = found[symbols.link].data
    for at, how, *addend in RELOCATIONS[section.type].iter_unpack(section.data):
        symbol = SYMBOL.unpack_from(symbols.data, (how >> 32) * SYMBOL.size)
        target = _string(names, symbol[0]) or found[symbol[3]].name
        yield f"{at} {how & 0xFFFFFFFF} {target} {symbol[4]} {addend}".encode()
