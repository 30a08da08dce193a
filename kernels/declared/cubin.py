"""Reads off a cubin which architecture it is for: an ELF header's machine and flags, and no more."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQI")  # Elf64_Ehdr up to e_flags
MACHINE = 190  # EM_CUDA


def arch(content: bytes) -> str:
    """sm_86; empty where these bytes are no cubin.

    The low byte of the flags is the architecture up to ABI version 7, from 8 on (sm_100) the byte above.
    """
    if len(content) < HEADER.size or content[:4] != b"\x7fELF":
        return ""
    ident, _, machine, *_, flags = HEADER.unpack_from(content)
    if machine != MACHINE:
        return ""
    abi_version = ident[8]
    number = flags >> 8 & 0xFF if abi_version >= 8 else flags & 0xFF
    return f"sm_{number}"
