"""Loads, loops and instructions per weight out of listings written by hand."""

from __future__ import annotations

import json

import pytest

from workers.nvrtc import disassembler, sass
from workers.nvrtc.disassembler import Instruction, Unreadable


def code(text: str) -> tuple[Instruction, ...]:
    """One instruction a line: OPCODE operand,operand."""
    lines = [line.split(maxsplit=1) for line in text.strip().splitlines()]
    return tuple(
        Instruction(op, tuple("".join(rest).replace(" ", "").split(",")) if rest else ())
        for op, *rest in lines
    )


# Two weights a turn: a word of quants, a pair of activations, two products.
LOOP = """
S2R R0, SR_TID.X
LDG.E R2, [R8.64]
LDG.E.64 R4, [R10.64]
LOP3.LUT R6, R2, 0xf, RZ, 0xc0, !PT
I2F R6, R6
FMUL R6, R6, R4
FADD R7, R7, R6
SHF.R.U32 R6, RZ, 0x4, R2
I2F R6, R6
FFMA R7, R6, R5.reuse, R7
BRA 0x10
LDG.E.128 R12, [R20.64]
EXIT
NOP
"""


def test_a_loops_figures() -> None:
    reading = sass.read(code(LOOP))
    assert (reading.instructions, reading.loads) == (13, (("32", 1), ("64", 1), ("128", 1)))
    assert reading.per_product == 10 / 2


def test_a_value_loaded_in_one_turn_and_used_in_the_next_counts_once() -> None:
    rotated = "FMUL R6, R6, R4\nLDG.E R4, [R10.64]\nBRA 0x0\nEXIT"
    assert sass.products(code(rotated)[:3]) == 0  # half of one use in two turns rounds to even
    assert sass.products(code("FMUL R6, R6, R4\nFMUL R6, R6, R5\nLDG.E.64 R4, [R10.64]\nBRA 0x0")) == 1


def test_two_loaded_factors_are_one_product() -> None:
    assert sass.products(code("LDG.E R4, [R2.64]\nLDG.E R5, [R8.64]\nFFMA R6, R4, R5, R6")) == 1


def test_an_activation_may_be_a_factor_of_four_rows_and_a_scale_is_one_of_more() -> None:
    load, products = "LDS R4, [R2]\n", ["FFMA R6, R7, R4, R6", "FFMA R8, R9, R4, R8"]
    assert sass.products(code(load + "\n".join(products * 2))) == 4
    assert sass.products(code(load + "\n".join(products * 3))) == 0


def test_the_loop_that_multiplies_most_is_read_without_the_loops_in_it() -> None:
    outer = "LDS.64 R4, [R2]\nMOV R1, R0\nBRA 0x10\nFFMA R6, R7, R4, R6\nFFMA R6, R7, R5, R6\nBRA 0x0\nEXIT"
    assert [len(body) for body in sass.loops(code(outer))] == [4, 2]
    assert sass.read(code(outer)).per_product == 4 / 2


def test_activations_from_shared_memory_count_and_are_no_global_loads() -> None:
    staged = LOOP.replace("LDG.E.64 R4, [R10.64]", "LDS.64 R4, [R10]")
    reading = sass.read(code(staged))
    assert reading.loads == (("32", 1), ("128", 1))
    assert reading.per_product == 10 / 2


def test_converted_values_are_no_activations() -> None:
    assert sass.products(code("LDG.E R4, [R2.64]\nI2F R4, R4\nFMUL R6, R6, R4")) == 0
    assert sass.products(code("LDG.E.U8 R4, [R2.64]\nFMUL R6, R6, R4")) == 0
    assert sass.products(code("LDG.E R4, [R2.64]\nMOV R4, R9\nFMUL R6, R6, R4")) == 0
    assert sass.products(code("LDG.E R4, [R2.64]\nFMUL R6, R6, -|R4|")) == 1


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [("LDG.E", 32), ("LDG.E.U8", 8), ("LDG.E.S8.CONSTANT", 8), ("LDG.E.U16", 16), ("LDG.E.64", 64),
     ("LDG.E.128.CONSTANT", 128), ("LDS.128", 0), ("LDC.64", 0), ("STG.E", 0)],
)  # fmt: skip
def test_width_of_a_global_load(opcode: str, bits: int) -> None:
    assert sass.load_bits(opcode) == bits


def test_a_trap_is_no_loop() -> None:
    nested = code("MOV R0, R1\nLDG.E R1, [R2.64]\nBRA 0x10\nBRA 0x0\nBRA 0x40\nBRA 0x70\nNOP\nNOP")
    assert [len(body) for body in sass.loops(nested)] == [2, 2]


def test_without_a_listing_nothing_is_said() -> None:
    assert sass.read(()) == sass.Reading(None)
    assert sass.read(code("FMUL R1, R2, R3\nEXIT")) == sass.Reading(2, (), None)


def test_parse_takes_the_functions_one_behind_the_other() -> None:
    listing = [
        {"Producer": "nvdisasm"},
        [{"function-name": "Unknown", "sass-instructions": [
             {"predicate": "@P0", "opcode": "LDG.E", "operands": "R1,[R2.64+0x4]"}, {"opcode": "EXIT"}]}],
    ]  # fmt: skip
    assert disassembler.parse(json.dumps(listing)) == (
        Instruction("LDG.E", ("R1", "[R2.64+0x4]"), "@P0"), Instruction("EXIT", ()),
    )  # fmt: skip


def test_codes_that_were_read_together_count_from_their_own_beginning() -> None:
    alone = code(LOOP)
    behind = code(LOOP.replace("BRA 0x10", "BRA 0xf0"))
    assert disassembler.split((*alone, *behind), [14, 14]) == (alone, alone)
    assert sass.read(behind) != sass.read(alone)


def test_a_listing_of_another_length_is_none() -> None:
    with pytest.raises(Unreadable, match="14 instructions of 28"):
        disassembler.split(code(LOOP), [14, 14])
