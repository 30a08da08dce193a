"""Cases from the field about where operands lie: at the end of memory, before padding, off alignment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import inputs, registry
from kernels.evidence import Verdict
from kernels.model import Case, Layout
from tests.cases.making import KINDS, LINEAR, PACKED, RunCase, found, linear_case, positions, tokens
from tests.workers.zoo import Wrong

MOD_4 = (9, 10, 11)  # rows that leave 1, 2 and 3 over when four are taken at a time
ALIGN = 16  # bytes, of a buffer's start

# One block, or one row of blocks, more than there is.
FURTHER = {
    "matvec/block": (("b < blocks;", "b <= blocks;"),),
    "matvec/coalesced": (("b < blocks;", "b <= blocks;"),),
    "mul_mm/reference": (("first_row + r < rows ? first_row + r : rows - 1", "min_(first_row + r, rows)"),
                         ('extern "C"', "static __device__ long long min_(long long a, long long b) "
                                        '{ return a < b ? a : b; }\nextern "C"')),
}  # fmt: skip
# The columns go on into what lies behind a row.
INTO_PADDING = {**FURTHER, "mul_mm/reference": (("k < cols;", "k < cols + BK;"),)}


def at_the_end(kernel: str, kind: str, rows: int) -> Case:
    """The last weight byte is the last byte before a page that can't be read; activations have slack."""
    used = rows * registry.kind(kind).row_bytes(3 * registry.kind(kind).elements)
    layout = Layout(weights_offset=-used % ALIGN, x_slack=registry.kind(kind).elements)
    assert (layout.weights_offset + used) % ALIGN == 0
    return linear_case(kernel, kind, rows, blocks=3, layout=layout)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_03_last_partial_block_stays_inside_the_weights(run: RunCase, kernel: str, kind: str) -> None:
    lines = [run(at_the_end(kernel, kind, rows)) for rows in MOD_4]
    assert {line.verdict for line in lines} == {Verdict.PASS}
    assert sum(map(positions, lines)) == 30 * tokens(kernel)


@pytest.mark.parametrize("rows", MOD_4)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_03_last_partial_block_reads_past_the_end(run: RunCase, kernel: str, rows: int) -> None:
    wrong = Wrong("one block further", kernel, "Q6_K", FURTHER[kernel])
    line = run(at_the_end(kernel, "Q6_K", rows), wrong)
    assert line.verdict is Verdict.CRASH
    assert line.reason.startswith("wild access (read of")
    assert " bytes past the end of buffer 'weights'" in line.reason


@pytest.mark.parametrize("rows", MOD_4)
def test_case_03_last_field_read_as_a_word_reads_past_the_end(run: RunCase, rows: int) -> None:
    """Four bytes where the last block's float16 has two: right numbers wherever something lies behind."""
    word = "half_bits_to_float((unsigned short)*(volatile const unsigned int *)(block + AT_D))"
    wrong = Wrong("a word for d", "matvec/coalesced", "Q6_K", (("half_at(block + AT_D)", word),))
    line = run(linear_case("matvec/coalesced", "Q6_K", rows, 3), wrong)
    assert line.verdict is Verdict.CRASH
    assert "0 bytes past the end of buffer 'weights'" in line.reason


def padded(case: Case) -> Case:
    """One block's bytes of 0xFF behind every row, one block of NaN behind the activations."""
    kind = registry.kind(case.kinds[0])
    return replace(case, layout=Layout(row_padding=kind.block_bytes, x_slack=kind.elements))


def test_case_04_padding_is_0xff_and_nan_behind_the_row() -> None:
    case = padded(linear_case("matvec/block", "Q3_K", rows=7, blocks=3))
    plan = registry.kernel("matvec/block").plan(case)
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    behind = images["weights"].reshape(7, 4 * 110)[:, 3 * 110 :]
    assert (behind == 0xFF).sum() == 7 * 110
    assert np.isnan(images["x"].view(np.float32)).sum() == 256


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_04_padding_has_no_influence(run: RunCase, kernel: str, kind: str) -> None:
    packed = linear_case(kernel, kind, rows=7, blocks=3)
    without, behind = run(packed), run(padded(packed))
    assert found(without) == found(behind) == (Verdict.PASS, 7 * tokens(kernel))
    assert behind.output_digest == without.output_digest


@pytest.mark.parametrize("kernel", LINEAR)
def test_case_04_padding_assumed_to_be_zero_is_added(run: RunCase, kernel: str) -> None:
    wrong = Wrong("adds the padded block", kernel, "Q3_K", INTO_PADDING[kernel])
    line = run(padded(linear_case(kernel, "Q3_K", rows=7, blocks=3)), wrong)
    assert found(line) == (Verdict.FAIL, 7 * tokens(kernel))
    assert line.comparison is not None
    assert line.comparison.bad == 7 * tokens(kernel)


def test_case_04_nan_activations_behind_the_row_times_zero(run: RunCase) -> None:
    edit = ("out[row] = sums[0];", "out[row] = sums[0] + 0.0f * x[cols];")
    line = run(
        padded(linear_case("matvec/block", "Q3_K", rows=7, blocks=3)),
        Wrong("multiplies what lies behind by zero", "matvec/block", "Q3_K", (edit,)),
    )
    assert found(line) == (Verdict.FAIL, 7)
    assert "got nan" in line.reason


OFF_BY_2 = Layout(weights_offset=2)
ODD_BLOCKS = {"Q4_0": 18, "Q5_0": 22, "Q8_0": 34, "Q6_K": 210}


def test_case_05_odd_blocks_have_the_sizes_of_the_report() -> None:
    assert {name: registry.kind(name).block_bytes for name in ODD_BLOCKS} == ODD_BLOCKS


@pytest.mark.parametrize("kind", ODD_BLOCKS)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_05_misaligned_wide_loads_give_right_numbers(run: RunCase, kernel: str, kind: str) -> None:
    off, packed = (linear_case(kernel, kind, 9, 5, layout=layout) for layout in (OFF_BY_2, PACKED))
    line = run(off)
    assert found(line) == (Verdict.PASS, 9 * tokens(kernel))
    assert line.output_digest == run(packed).output_digest


@pytest.mark.parametrize("kind", KINDS)
def test_case_05_misaligned_wide_loads_are_refused_by_got_and_want(run: RunCase, kind: str) -> None:
    line = run(linear_case("matvec/coalesced", kind, rows=9, blocks=5, layout=OFF_BY_2))
    wide = registry.kind(kind).lane_align
    if 2 % wide == 0:
        assert found(line) == (Verdict.PASS, 9)
    else:
        want = f"want a multiple of {wide}, which {kind}'s lanes load at once"
        assert found(line) == (Verdict.SKIP, 0)
        assert line.reason == f"weights offset: got 2 bytes, {want}"


def test_case_05_q4_k_coalesced_is_one_that_refuses() -> None:
    assert registry.kind("Q4_K").lane_align == 4


@pytest.mark.parametrize("kind", ODD_BLOCKS)
def test_case_05_misaligned_base_rounded_down_fails(run: RunCase, kind: str) -> None:
    """As a wide load does on a device that ignores the low bits; aligned weights don't show it."""
    base = "(const unsigned char *)((unsigned long long)weights & ~3ull) + row * row_bytes"
    wrong = Wrong("rounds its base", "matvec/coalesced", kind, (("weights + row * row_bytes", base),))
    layouts = (OFF_BY_2, Layout(weights_offset=16))
    off, aligned = (linear_case("matvec/coalesced", kind, 9, 5, layout=layout) for layout in layouts)
    assert found(run(off, wrong)) == (Verdict.FAIL, 9)
    assert found(run(aligned, wrong)) == (Verdict.PASS, 9)
