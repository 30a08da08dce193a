"""What machine code shows of a kernel: its global loads by width, and instructions a product in its loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

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
MULTIPLIES = ("FMUL", "FFMA")  # by integers, sums are taken as products with ones: those tell nothing
MOST_ROWS = 4  # of a lane, for which it takes one activation
WRITES_NOTHING = ("ST", "BRA", "BAR", "EXIT", "NOP", "BSYNC", "BSSY", "RED")


@dataclass(frozen=True)
class Reading:
    """What was read off; None and empty where the code doesn't show it."""

    instructions: int | None
    loads: tuple[tuple[str, int], ...] = ()  # global loads by width in bits, narrow first
    per_product: float | None = None  # instructions, in the loop that multiplies most


def read(code: Sequence[Instruction]) -> Reading:
    """Figures of one function; nothing for no instructions."""
    if not code:
        return Reading(None)
    widths = Counter(width for line in code if (width := load_bits(line.opcode)))
    made, length = max(((products(body), -len(body)) for body in loops(code)), default=(0, 0))
    loads = tuple((str(bits), widths[bits]) for bits in sorted(widths))
    return Reading(
        len([line for line in code if line.opcode != "NOP"]), loads, -length / made if made else None
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
    """The instructions of every loop, from a backward branch's target to the branch, less the loops in it."""
    spans = {
        (first, last)
        for last, line in enumerate(code)
        if (first := _target(line)) is not None and first < last
    }
    for first, last in sorted(spans):
        inner = [one for one in spans if one != (first, last) and first <= one[0] and one[1] <= last]
        own = (at for at in range(first, last + 1) if not any(begin <= at <= end for begin, end in inner))
        yield [code[at] for at in own]


def _target(line: Instruction) -> int | None:
    """The number of the instruction that a branch goes to."""
    found = TARGET.search(line.operands[-1]) if line.opcode.startswith("BRA") and line.operands else None
    return int(found[0], 16) // INSTRUCTION_BYTES if found else None


def products(body: Sequence[Instruction]) -> int:
    """How many products have a factor that was loaded as it is: an activation, or a weight that is a float.

    Other weights go through conversions first, as do most scales; a factor of more products than a lane has
    rows is one, too. The body is gone through twice, since a value may be loaded in one turn of the loop and
    used in the next.
    """
    held: dict[int, int] = {}  # the loaded value that a register has, by its number
    factors: list[set[int]] = []  # of every multiplication
    loaded = count()
    for line in (*body, *body):
        written, read_registers = _registers(line)
        if line.opcode.startswith(MULTIPLIES):
            factors.append({held[register] for register in read_registers if register in held})
        bits = load_bits(line.opcode, STAGED)
        for register in written:
            for part in range(register, register + max(1, bits // 32)):
                held.pop(part, None)
                held |= {part: next(loaded)} if bits >= 32 else {}
    uses = Counter(chain.from_iterable(factors))
    return round(sum(any(uses[value] <= MOST_ROWS for value in found) for found in factors) / 2)


def _registers(line: Instruction) -> tuple[set[int], set[int]]:
    """The register written (the first operand's) and those read."""
    numbers = [[int(number) for number in REGISTER.findall(operand)] for operand in line.operands]
    if not numbers or line.opcode.startswith(WRITES_NOTHING):
        return set(), {number for found in numbers for number in found}
    return set(numbers[0]), {number for found in numbers[1:] for number in found}
