"""The Q4 ladder: geometry, layouts, order of additions, edges, refusals; each rung against plain loops."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kernels import catalog, compare, inputs, judge, registry, source
from kernels.compare import U
from kernels.kind import nibbles
from kernels.model import Build, Device, Layout
from kernels.op import Step
from kernels.ops.matvec import ladder_v5
from kernels.ops.matvec._ladder import EDGES, Rung

RUNGS = [kernel for kernel in registry.all_kernels().values() if isinstance(kernel, Rung)]
IDS = [rung.id for rung in RUNGS]
INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 65537])
@pytest.mark.parametrize(
    ("kernel_id", "blocks", "shared"),
    [
        ("matvec/ladder_v1", lambda rows: rows, 1024),
        ("matvec/ladder_v2", lambda rows: -(-rows // 8), 0),
        ("matvec/ladder_v3", lambda rows: -(-rows // 8), 8448),
        ("matvec/ladder_v4", lambda rows: -(-rows // 8), 8448),
        ("matvec/ladder_v5", lambda rows: -(-rows // 8), 4352),
    ],
)
def test_geometry(make: Any, kernel_id: str, blocks: Any, shared: int, rows: int) -> None:
    (launch,) = registry.kernel(kernel_id).plan(make(kernel_id, "Q4_0", f"{rows}x64")).launches
    assert (launch.grid, launch.block) == ((blocks(rows), 1, 1), (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (shared, 0)
    assert launch.entry == f"{kernel_id.replace('/', '_')}_q4_0"


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_it_exists_for_q4_0_alone(rung: Rung) -> None:
    labels = {cell.kind for cell in catalog.cells() if (cell.op, cell.kernel) == (rung.op, rung.name)}
    assert labels == {"Q4_0"}


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_plan_has_a_buffer_for_each_part_with_pitch_and_offset(make: Any, rung: Rung) -> None:
    layout = Layout(row_padding=32, weights_offset=16, x_offset=4)
    plan = rung.plan(make(rung.id, "Q4_0", "3x96", layout=layout))
    quants, scales = plan.buffer("weights.quants"), plan.buffer("weights.scales")
    scale_bytes = np.dtype(scales.dtype).itemsize
    assert (quants.strides[0], scales.strides[0]) == (3 * 16 + 32, 3 * scale_bytes + 32)
    assert (quants.offset, scales.offset, plan.buffer("x").offset) == (16, 16, 4)
    (launch,) = plan.launches
    assert launch.scalars == {
        "rows": 3,
        "cols": 96,
        "weights.quants_pitch": quants.strides[0],
        "weights.scales_pitch": scales.strides[0],
    }


def element(i: int, order: tuple[int, ...] = INTERLEAVED) -> int:
    """The element of a block whose nibble is number i."""
    return i // 8 * 8 + order[i % 8]


def add_block(w: np.ndarray, x: np.ndarray, block: int, total: np.float32) -> np.float32:
    for i in range(32):
        at = 32 * block + element(i)
        total = total + w[at] * x[at]
    return total


def warp_sum(sums: list[np.float32]) -> np.float32:
    for step in (16, 8, 4, 2, 1):
        sums = [sums[lane] + sums[lane + step if lane + step < 32 else lane] for lane in range(32)]
    return sums[0]


def v1_by_hand(w: np.ndarray, x: np.ndarray) -> np.float32:
    sums = [np.float32(0)] * 256
    for block in range(len(w) // 32):
        sums[block % 256] = add_block(w, x, block, sums[block % 256])
    half = 128
    while half:
        sums = [sums[t] + sums[t + half] for t in range(half)]
        half //= 2
    return sums[0]


def v2_by_hand(w: np.ndarray, x: np.ndarray) -> np.float32:
    sums = [np.float32(0)] * 32
    for block in range(len(w) // 32):
        sums[block % 32] = add_block(w, x, block, sums[block % 32])
    return warp_sum(sums)


def v4_by_hand(w: np.ndarray, x: np.ndarray) -> np.float32:
    sums = [[np.float32(0)] * 32, [np.float32(0)] * 32]
    for block in range(len(w) // 32):
        half = block % 64 // 32
        sums[half][block % 32] = add_block(w, x, block, sums[half][block % 32])
    return warp_sum([sums[0][lane] + sums[1][lane] for lane in range(32)])


def float16(value: Fraction) -> Fraction:
    """The nearest float16, ties to even, in plain integers."""
    step = Fraction(1, 2**24)
    while abs(value) >= step * 2**11:
        step *= 2
    return round(value / step) * step


def v5_by_hand(d: np.ndarray, q: np.ndarray, x: np.ndarray) -> np.float32:
    """(blocks,) float32 scales, (blocks, 32) integers less 8, (cols,) float32."""
    sums = [np.float32(0)] * 32
    staged = [float16(Fraction(float(value))) for value in x]
    for block in range(len(d)):
        pair = [Fraction(0), Fraction(0)]
        for word in range(4):
            for i in range(4):
                for side in range(2):
                    at = 8 * word + i + 4 * side
                    pair[side] = float16(int(q[block, at]) * staged[32 * block + at] + pair[side])
        inner = np.float32(float(pair[0])) + np.float32(float(pair[1]))
        sums[block % 32] = sums[block % 32] + d[block] * inner
    return warp_sum(sums)


BY_HAND = {
    "matvec/ladder_v1": v1_by_hand,
    "matvec/ladder_v2": v2_by_hand,
    "matvec/ladder_v3": v2_by_hand,
    "matvec/ladder_v4": v4_by_hand,
}


@pytest.mark.parametrize("blocks", [1, 33, 65, 257])
@pytest.mark.parametrize("kernel_id", BY_HAND)
def test_twin_adds_in_the_order_of_the_text(make: Any, ran: Any, kernel_id: str, blocks: int) -> None:
    done = ran(make(kernel_id, "Q4_0", f"2x{32 * blocks}"))
    (step,), (out,) = done.steps, done.outs
    assert step.kind is not None
    w = step.kind.weights(step.arrays["weights"])
    assert out.tolist() == [float(BY_HAND[kernel_id](row, step.arrays["x"])) for row in w]


@pytest.mark.parametrize("family", ["ordinary", "tiny", "sparse"])
@pytest.mark.parametrize("blocks", [1, 33, 65])
def test_v5_rounds_every_multiply_add_once_to_float16(make: Any, ran: Any, blocks: int, family: str) -> None:
    done = ran(make("matvec/ladder_v5", "Q4_0", f"2x{32 * blocks}", family))
    (step,), (out,) = done.steps, done.outs
    assert step.kind is not None
    held = np.ascontiguousarray(step.arrays["weights"]).view(step.kind.block)
    q = nibbles(held["qs"]).reshape(2, blocks, 32).astype(int) - 8
    d = held["d"].astype(np.float32)
    want = [float(v5_by_hand(d[row], q[row], step.arrays["x"])) for row in range(2)]
    assert out.tolist() == want
    exact = step.kind.weights(step.arrays["weights"]).astype(np.float64) @ step.arrays["x"].astype(np.float64)
    assert (np.abs(out - exact) > 2.0**-20 * np.abs(exact)).any()  # more than float32 would be off


@pytest.mark.parametrize(
    ("kernel_id", "blocks", "want"),
    [
        ("matvec/ladder_v1", 1, 40),
        ("matvec/ladder_v1", 257, 72),
        ("matvec/ladder_v2", 33, 69),
        ("matvec/ladder_v3", 64, 69),
        ("matvec/ladder_v4", 64, 38),
        ("matvec/ladder_v4", 65, 70),
        ("matvec/ladder_v5", 65, 25),
    ],
)
def test_chain_counts_turns_and_reduction(
    make: Any, ran: Any, kernel_id: str, blocks: int, want: int
) -> None:
    done = ran(make(kernel_id, "Q4_0", f"1x{32 * blocks}"))
    assert registry.launch_kernel(kernel_id).chain(done.steps[0]) == want


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_the_quick_tier_has_the_edges_of_warps_and_tiles(rung: Rung) -> None:
    chosen = catalog.Selection(kernels=(rung.id,), builds=(Build.EXACT,))
    blocks = {one.case.shape["cols"] // 32 for one in catalog.expand(chosen)}
    assert {1, *EDGES} <= blocks
    assert {31, 32, 33, 63, 64, 65, 127, 128} == set(EDGES)


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
@pytest.mark.parametrize(
    ("layout", "says"),
    [
        (Layout(weights_offset=2), "weights offset: got 2 bytes, want a multiple of 16"),
        (Layout(weights_offset=8), "weights offset: got 8 bytes, want a multiple of 16"),
        (Layout(row_padding=4), "row pitch: got 52 bytes, want a multiple of 16"),
        (Layout(row_padding=64, weights_offset=16), ""),
        (Layout(x_offset=4), ""),
    ],
    ids=str,
)
def test_loads_of_16_bytes_refuse_what_is_not_aligned(
    make: Any, refused: Any, rung: Rung, layout: Layout, says: str
) -> None:
    said = refused(make(rung.id, "Q4_0", "2x96", layout=layout))
    assert said.startswith(says)
    assert bool(said) == bool(says)


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_refuses_shapes(make: Any, refused: Any, rung: Rung) -> None:
    assert "empty" in refused(make(rung.id, "Q4_0", "0x64"))
    assert "K-tile" in refused(make(rung.id, "Q4_0", "4x48"))
    plain = replace(make(rung.id, "Q4_0", "4x64"), packing="")
    assert refused(plain) == f"weight layout: got GGML's, want {rung.packing}"


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_text_takes_its_numbers_from_the_geometry(rung: Rung) -> None:
    text = source.text(rung.id, "Q4_0")
    body = text[text.index("__global__") :].replace("[", " ").replace("]", " ")
    assert not {"256", "64", "33", "17", "8448", "1024"} & set(body.split())
    assert "*(const uint4 *)quants" in text


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_worst_block_is_ggmls(make: Any, rung: Rung) -> None:
    case = make(rung.id, "Q4_0", "3x96")
    plan = rung.plan(case)
    images = judge.twin_outputs(plan, inputs.images(case, plan, registry.op("matvec").operands(case)))
    plan.buffer("out").view(images["out"])[1] = 1e9
    worst = judge.judge(case, plan, images, 0x7FC0DEAD).comparison.worst
    assert worst is not None
    step = judge.step_of(plan.launches[0], plan, images, "ordinary")
    assert worst.index == (1,)
    assert len(worst.block) == 2 * 18
    assert worst.block in step.arrays["weights"][1].tobytes().hex()


V5 = ladder_v5.KERNEL


@pytest.mark.parametrize(
    ("family", "shape", "refuses"),
    [
        ("large", "2x32", True),
        ("heavy_tailed", "2x32", True),
        ("specials", "2x96", True),
        ("specials", "2x64", False),
        ("extreme", "2x96", False),
        ("cancelling", "2x96", False),
    ],
)
def test_v5_refuses_families_past_the_range_of_its_sums(
    make: Any, refused: Any, family: str, shape: str, refuses: bool
) -> None:
    said = refused(make(V5.id, "Q4_0", shape, family))
    assert said == (f"x: family {family} has more than the 511 that sums in float16 hold" if refuses else "")


@pytest.mark.parametrize(
    "family", ["ordinary", "tiny", "onehot", "sparse", "constant", "cancelling", "extreme"]
)
@pytest.mark.parametrize("seed", range(3))
def test_v5_takes_families_that_its_sums_hold(make: Any, family: str, seed: int) -> None:
    """So that the families that it refuses are the ones past its range."""
    drawn = replace(make(V5.id, "Q4_0", "3x2048", family).x, seed=seed)
    case = make(V5.id, "Q4_0", "3x2048", family, x=drawn)
    images = inputs.images(case, V5.plan(case), registry.op("matvec").operands(case))
    assert np.abs(V5.plan(case).buffer("x").view(images["x"])).max() <= ladder_v5.LARGEST


def judged(step: Step, out: np.ndarray) -> compare.Compared:
    op: Any = registry.op("matvec")
    place = compare.Place(0, V5.id, "out", step.family)
    return compare.compare(out, V5.twin(step), op.truth(V5, step), place, 0x7FC0DEAD)


def test_v5_activations_past_its_range_are_no_pass(make: Any, ran: Any) -> None:
    """What a file may hold is judged by the oracle: a sum that overflows to Inf is FAIL, not the twin's."""
    (step,) = ran(make(V5.id, "Q4_0", "9x96", "constant")).steps
    for size, verdict in ((511.0, "PASS"), (600.0, "FAIL")):
        weights = step.arrays["weights"].copy()
        weights.reshape(-1).view(registry.kind("Q4_0").block)["qs"] = 0  # every weight is -8 d
        x = np.full_like(step.arrays["x"], size)
        large = Step({"weights": weights, "x": x}, step.scalars, step.kind, "constant", step.given)
        found = judged(large, V5.twin(large))
        assert (found.verdict, found.by_twin) == (verdict, 0)
        assert found.bad == (9 if verdict == "FAIL" else 0)


def test_v5_limit_is_float16s_within_a_block(make: Any, ran: Any) -> None:
    """Structured inputs: 17 roundings of S; zero-mean ones: 6 of the root of the blocks' squares."""
    op: Any = registry.op("matvec")
    for family, blocks in (("constant", 1), ("ordinary", 1), ("ordinary", 256)):
        (step,) = ran(make(V5.id, "Q4_0", f"5x{32 * blocks}", family)).steps
        truth = op.truth(V5, step)
        share = truth.limit / truth.scale / 2.0**-11
        most, least = {"constant": (17.4, 17.0), "ordinary": (6.3, 0.3)}[family]
        assert (share <= most).all()
        assert (share >= least).all()
        if blocks == 256:
            assert (share < 1).all()
        assert (truth.limit > 100 * U * truth.scale).all()


@pytest.mark.parametrize(("family", "least"), [("onehot", 8), ("sparse", 4)])
def test_v5_a_dropped_last_element_fails(make: Any, ran: Any, family: str, least: int) -> None:
    (step,) = ran(make(V5.id, "Q4_0", "9x2048", family)).steps
    x = step.arrays["x"].copy()
    x[-1] = 0
    wrong = V5.twin(Step({**step.arrays, "x": x}, step.scalars, step.kind, step.family, step.given))
    assert judged(step, wrong).bad >= least
    assert judged(step, V5.twin(step)).bad == 0


def test_v5_scales_of_inf_are_judged_by_the_twin_and_said_to_be(make: Any, ran: Any) -> None:
    done = ran(make(V5.id, "Q4_0", "40x32", "specials"))
    assert (done.comparison.verdict, done.comparison.judge) == ("PASS", "oracle+twin")
    assert not np.isfinite(done.outs[0]).all()
    assert np.isfinite(done.outs[0]).sum() > 30


@pytest.mark.parametrize(
    ("sm", "refuses"), [("sm_50", True), ("sm_52", True), ("sm_53", False), ("sm_90", False)]
)
def test_v5_needs_f16x2(sm: str, refuses: bool) -> None:
    device = Device(sm, sm, sm, sm, fingerprint=(("sm", sm),))
    said = V5.refuses_device(device, executes=False)
    assert said == (f"f16x2 arithmetic needs sm_53; this is {sm}" if refuses else "")
    assert V5.refuses_device(Device("cpu", "cpu", "cpu", "cpu"), executes=True) == ""
