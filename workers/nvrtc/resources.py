"""Registers, spills, stack and shared memory of a kernel, read off the assembler's log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernels.errors import FarmError

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """What one entry takes."""

    registers: int  # a thread
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int


def of_entry(log: str, entry: str) -> Resources:
    """The figures of one entry and of the functions it calls; FarmError where the log has none."""
    block = _block(log, entry)
    registers = REGISTERS.search(block)
    frames = [tuple(map(int, found)) for found in FRAME.findall(block)]
    if registers is None or not frames:
        raise FarmError(f"the assembler's log says nothing of {entry}: {log[:200]!r}")
    shared = SHARED.search(block)
    return Resources(
        registers=int(registers[1]),
        stack_bytes=max(frame[0] for frame in frames),
        spill_store_bytes=sum(frame[1] for frame in frames),
        spill_load_bytes=sum(frame[2] for frame in frames),
        static_shared_bytes=int(shared[1]) if shared else 0,
    )


def _block(log: str, entry: str) -> str:
    """The lines about an entry: from its own headline to the next one's."""
    parts = ENTRY.split(log)  # before, entry, arch, lines, entry, arch, lines, …
    return next((lines for name, lines in zip(parts[1::3], parts[3::3], strict=True) if name == entry), "")
