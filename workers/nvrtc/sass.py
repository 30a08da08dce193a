"""What machine code shows of a kernel: its global loads by width, and instructions per weight in its loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workers.nvrtc.disassembler import INSTRUCTION_BYTES, TARGET, Instruction

REGISTER = re.compile(r"\bR(\d+)\b")
WIDTHS = {
    "U8": 8,
    "S8": 8,
    "U16": 16,
    "S16": 16,
    "64": 64,
    "128": 128,
}  # bits, by a load's last parts; else 32
MULTIPLIES = ("FMUL", "FFMA")
WRITES_NOTHING = ("ST", "BRA", "BAR", "EXIT", "NOP", "BSYNC", "BSSY", "RED")


@dataclass(frozen=True)
class Reading:
    """What was read off; None and empty where the code doesn't show it."""

    instructions: int | None
    loads: tuple[tuple[str, int], ...] = ()  # global loads by width in bits, narrow first
    per_weight: float | None = None


def read(code: Sequence[Instruction]) -> Reading:
    """Figures of one function; nothing for no instructions."""
    if not code:
        return Reading(None)
    widths = Counter(width for line in code if (width := load_bits(line.opcode)))
    body = max(loops(code), key=lambda body: sum(load_bits(line.opcode) for line in body), default=())
    weights = activations(body)
    loads = tuple((str(bits), widths[bits]) for bits in sorted(widths))
    return Reading(
        len([line for line in code if line.opcode != "NOP"]), loads, len(body) / weights if weights else None
    )


GLOBAL = ("LDG", "LD")
STAGED = (*GLOBAL, "LDS")  # activations may come by way of shared memory


def load_bits(opcode: str, from_memory: tuple[str, ...] = GLOBAL) -> int:
    """The width of a load from global memory, or from what is named; 0 for any other instruction."""
    name, *parts = opcode.split(".")
    if name not in from_memory:
        return 0
    return next((WIDTHS[part] for part in parts if part in WIDTHS), 32)


def loops(code: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """The bodies of the innermost loops: from a backward branch's target to the branch."""
    spans = [
        (first, last)
        for last, line in enumerate(code)
        if (first := _target(line)) is not None and first < last
    ]
    for first, last in spans:
        if not any((first, last) != other and first <= other[0] and other[1] <= last for other in spans):
            yield code[first : last + 1]


def _target(line: Instruction) -> int | None:
    """The number of the instruction that a branch goes to."""
    found = TARGET.search(line.operands[-1]) if line.opcode.startswith("BRA") and line.operands else None
    return int(found[0], 16) // INSTRUCTION_BYTES if found else None


def activations(body: Sequence[Instruction]) -> int:
    """How many loaded values a float multiplication takes as they are: one activation for each weight.

    Weights and scales go through conversions first. The body is gone through twice, since a value may be
    loaded in one turn of the loop and used in the next.
    """
    waiting: set[int] = set()
    used = 0
    for line in (*body, *body):
        written, read_registers = _registers(line)
        for register in read_registers & waiting:
            waiting.discard(register)
            used += line.opcode.startswith(MULTIPLIES)
        bits = load_bits(line.opcode, STAGED)
        for register in written:
            span = range(register, register + max(1, bits // 32))
            (waiting.update if bits >= 32 else waiting.difference_update)(span)
    return round(used / 2)


def _registers(line: Instruction) -> tuple[set[int], set[int]]:
    """The register written (the first operand's) and those read."""
    numbers = [[int(number) for number in REGISTER.findall(operand)] for operand in line.operands]
    if not numbers or line.opcode.startswith(WRITES_NOTHING):
        return set(), {number for found in numbers for number in found}
    return set(numbers[0]), {number for found in numbers[1:] for number in found}
