"""matvec/wide: rows split over warps where they are few, pieces added by hand, the limit of factored sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import compare, oracle, registry, source
from kernels.kind import Kind
from kernels.model import Layout
from kernels.ops.matvec.wide import SPAN, warps_a_row

KERNEL = "matvec/wide"
KINDS = list(registry.kinds())
STATIC_MOST = 48 << 10  # bytes of shared memory that every board gives without being asked


def launch_of(make: Any, kind: str, shape: str) -> Any:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, kind, shape)).launches
    return launch


@pytest.mark.parametrize(
    ("rows", "cols", "split"),
    [
        (1, SPAN, 1),  # a warp has one span
        (1, SPAN + 256, 2),
        (1, 2 * SPAN + 256, 2),
        (1, 3 * SPAN + 256, 4),
        (512, 8192, 4),
        (8192, 8192, 2),  # 2,048 groups of rows
        (16384, 8192, 1),
        (128256, 2048, 1),
    ],
)
def test_rows_are_split_while_there_are_too_few_warps(make: Any, rows: int, cols: int, split: int) -> None:
    launch = launch_of(make, "Q4_K", f"{rows}x{cols}")
    assert launch.scalars["split"] == split == warps_a_row(rows, cols, 4)
    assert launch.grid == (-(-rows // (16 // split)), 1, 1)  # four warps a block, four rows a warp


@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_block_takes_no_more_than_every_board_has(make: Any, kind: str) -> None:
    launch = launch_of(make, kind, "64x8192")
    assert launch.block == (128, 1, 1)
    assert 0 < launch.dynamic_shared_bytes <= STATIC_MOST


def test_a_span_of_every_kind_is_whole_blocks_and_whole_units() -> None:
    for kind in registry.kinds().values():
        constants = registry.launch_kernel(KERNEL).constants(kind)
        assert SPAN % kind.elements == 0
        assert SPAN % (32 * constants["UNIT"]) == 0
        # No vector more than the span takes, wherever blocks may begin in the first one.
        furthest = 16 - constants["ALIGN"] + SPAN // kind.elements * kind.block_bytes
        assert 16 * constants["VECTORS"] - 16 < furthest <= 16 * constants["VECTORS"]


def test_quick_cases_tear_fields_by_offset_and_by_pitch_and_end_inside_a_vector_and_with_one() -> None:
    layouts = [one.layout for one in registry.kernel(KERNEL).quick((registry.kind("Q3_K"),))]
    assert layouts == [
        Layout(weights_offset=1, x_offset=4),
        Layout(weights_offset=32, row_padding=3),
        Layout(weights_offset=-7 * 1430 % 16),  # the eighth row of 3,328 columns starts with a vector
        Layout(weights_offset=2),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_torn_rows_have_no_bit_that_says_so_but_the_lowest(kind: str) -> None:
    """So that a text that looks at the next bit alone takes them for whole."""
    torn = registry.kernel(KERNEL).quick((registry.kind(kind),))[1].layout
    align = registry.launch_kernel(KERNEL).constants(registry.kind(kind))["ALIGN"]
    distance = torn.weights_offset | registry.kind(kind).block_bytes + torn.row_padding
    if align > 1:  # else no field can be torn
        assert (distance & 1, distance & align) == (1, 0)


def by_hand(kind: Kind, row: np.ndarray, x: np.ndarray, split: int) -> np.float32:
    """What the text says, warp by warp and lane by lane."""
    ints = registry.ints(kind.name)
    unit = 32 if ints and kind.elements == 32 else 16
    parts = [[np.float32(0)] * 32 for _ in range(split)]
    for first in range(0, len(x), unit):
        span, inside = divmod(first, SPAN)
        for piece in range(first, first + unit, 16):
            parts[span % split][inside // unit % 32] += piece_by_hand(kind, row, x, piece)
    total = None
    for sums in parts:
        for step in (16, 8, 4, 2, 1):
            sums = [sums[lane] + sums[lane + step if lane + step < 32 else lane] for lane in range(32)]
        total = sums[0] if total is None else total + sums[0]
    assert total is not None
    return total


def piece_by_hand(kind: Kind, row: np.ndarray, x: np.ndarray, piece: int) -> np.float32:
    ints, dot, xs = registry.ints(kind.name), np.float32(0), x[piece : piece + 16]
    if ints is None:
        for w, value in zip(kind.weights(row[None])[0, piece : piece + 16], xs, strict=True):
            dot += w * value
        return dot
    q, scale, low = ints.split(np.ascontiguousarray(row).view(kind.block))
    total = np.float32(0)
    for quant, value in zip(q.reshape(-1)[piece : piece + 16], xs, strict=True):
        dot += np.float32(quant) * value
        total += value
    term = scale.reshape(-1)[piece // 16] * dot
    return term if low is None else term + low.reshape(-1)[piece // 16] * total


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K", "Q6_K", "TQ2_0", "F16"])
def test_twin_adds_in_the_order_of_the_text(make: Any, ran: Any, kind: str) -> None:
    of = registry.kind(kind)
    done = ran(make(KERNEL, kind, f"2x{4 * SPAN + of.elements}"))
    (step,), (out,) = done.steps, done.outs
    rows, x = step.arrays["weights"], step.arrays["x"]
    assert out.tolist() == [float(by_hand(of, row, x, 4)) for row in rows]
    assert out.tolist() != [float(by_hand(of, row, x, 2)) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["ordinary", "cancelling"])
def test_twin_is_inside_the_proven_bound_of_factored_sums(
    make: Any, ran: Any, kind: str, family: str
) -> None:
    of = registry.kind(kind)
    done = ran(make(KERNEL, kind, f"5x{259 * of.elements}", family))
    (step,), (out,) = done.steps, done.outs
    want, scale = oracle.sums(of, step.arrays["weights"], step.arrays["x"].astype(np.float64), "factored")
    tensor = step.tensor_scale or 1
    chain = registry.launch_kernel(KERNEL).chain(step)
    assert (
        np.abs(out - tensor * want) <= compare.gamma(chain + 4 + of.tensor_scale) * abs(tensor) * scale
    ).all()
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 5)


@pytest.mark.parametrize(
    ("kind", "cols", "want"), [("Q8_0", 32, 23), ("Q4_K", 5 * SPAN, 28), ("F32", 32, 23)]
)
def test_chain_counts_a_piece_the_pieces_the_shuffles_and_the_warps(
    make: Any, ran: Any, kind: str, cols: int, want: int
) -> None:
    done = ran(make(KERNEL, kind, f"1x{cols}"))
    assert registry.launch_kernel(KERNEL).chain(done.steps[0]) == want


def test_rows_with_an_infinite_scale_are_the_twins_to_judge(make: Any, ran: Any) -> None:
    done = ran(make(KERNEL, "Q4_K", "40x256", "specials"))
    assert (done.comparison.verdict, done.comparison.judge) == ("PASS", "oracle+twin")


def test_no_view_is_refused(make: Any, refused: Any) -> None:
    for kind in KINDS:
        for offset in (1, 2, 4, 16):
            assert refused(make(KERNEL, kind, "3x512", layout=Layout(weights_offset=offset))) == ""


BRANCHES = {
    "Q4_K": "__fmul_rn(low, total)",
    "Q8_0": "return __fmul_rn(scale, dot);",
    "F16": "decode16(block, sub, w);",
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_a_text_has_the_branch_of_its_kind_and_no_other(kind: str) -> None:
    body = source.text(KERNEL, kind).split("float piece_sum(")[1]
    assert [name for name, words in BRANCHES.items() if words in body] == [kind]
    assert "#if" not in body
