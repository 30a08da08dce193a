"""matvec/dp4a: two launches, integer sums by hand, judged by what it reads, reported by what was given."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import codec, inputs, judge, registry
from kernels.evidence import Comparison
from kernels.kind import Kind
from kernels.model import Case, Device, Layout, Plan, Role
from kernels.ops import _q8_1

KERNEL = "matvec/dp4a"
KINDS = sorted(registry.all_ints())


def cols(kind: str, blocks: int) -> int:
    return blocks * registry.kind(kind).elements


def test_it_quantizes_first_and_then_takes_a_warp_a_row(make: Any) -> None:
    plan = registry.kernel(KERNEL).plan(make(KERNEL, "Q4_K", "9x768"))
    first, second = plan.launches
    assert (first.kernel, first.grid, first.block) == ("quantize_q8_1/warp", (3, 1, 1), (256, 1, 1))
    assert (second.kernel, second.grid, second.block) == (KERNEL, (3, 1, 1), (32, 4, 1))
    assert (first.buffers["out"], second.buffers["x"]) == ("quantized", "quantized")
    assert (plan.buffer("quantized").role, plan.buffer("quantized").nbytes) == (Role.SCRATCH, 24 * 36)


def test_it_exists_where_a_kind_has_an_integer_form() -> None:
    kernel = registry.kernel(KERNEL)
    assert [kind for kind in registry.kinds() if kernel.serves((kind,))] == [
        kind for kind in registry.kinds() if registry.ints(kind)
    ]
    assert kernel.serves(("Q4_K",))
    assert not kernel.serves(("TQ1_0",))


def by_hand(kind: Kind, row: np.ndarray, x: np.ndarray) -> np.float32:
    """What the text says, lane by lane: whole numbers by Python, floats one operation at a time."""
    ints = registry.ints(kind.name)
    assert ints is not None
    q, scale, low = ints.split(row.view(kind.block))
    qs, sums = q.reshape(-1, 16), [np.float32(0)] * 32
    for piece, (quants, s) in enumerate(zip(qs, scale.reshape(-1), strict=True)):
        block = x[piece // 2]
        us = block["qs"].reshape(2, 16)[piece % 2]
        d = np.float32(block["d"])
        dot = sum(int(a) * int(b) for a, b in zip(quants, us, strict=True))
        term = s * (d * np.float32(dot))
        if low is not None:
            term += low.reshape(-1)[piece] * (d * np.float32(int(us.astype(int).sum())))
        sums[piece % 32] += term
    for step in (16, 8, 4, 2, 1):
        sums = [sums[lane] + sums[lane + step if lane + step < 32 else lane] for lane in range(32)]
    return sums[0]


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K", "Q6_K", "MXFP4"])
def test_twin_adds_in_the_order_of_the_text(make: Any, ran: Any, kind: str) -> None:
    done = ran(make(KERNEL, kind, f"2x{cols(kind, 5)}"))
    step, out = done.steps[1], done.outs[1]
    x = step.arrays["x"].view(_q8_1.BLOCK)
    want = [by_hand(registry.kind(kind), row, x) for row in np.ascontiguousarray(step.arrays["weights"])]
    assert out.tolist() == [float(value) for value in want]


@pytest.mark.parametrize(("kind", "blocks", "want"), [("Q8_0", 1, 6), ("Q8_0", 17, 7), ("Q4_K", 9, 10)])
def test_chain_counts_a_lanes_pieces_and_the_shuffles(
    make: Any, ran: Any, kind: str, blocks: int, want: int
) -> None:
    done = ran(make(KERNEL, kind, f"1x{cols(kind, blocks)}"))
    assert registry.launch_kernel(KERNEL).chain(done.steps[1]) == want


@pytest.mark.parametrize(
    "family", ["ordinary", "tiny", "onehot", "sparse", "constant", "cancelling", "large"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_twin_passes_tightly_on_quantized_activations(make: Any, ran: Any, kind: str, family: str) -> None:
    found = ran(make(KERNEL, kind, f"5x{cols(kind, 9)}", family)).comparison
    assert (found.verdict, found.reason) == ("PASS", "")
    assert found.judge in ("oracle", "oracle+twin")  # halves of a step are the twin's to round
    assert found.positions == 5 + _q8_1.row_bytes(cols(kind, 9))
    assert found.float_nmse is not None


def test_the_figure_against_floats_is_what_quantizing_costs(make: Any, ran: Any) -> None:
    """Half a step of 1/127 of the largest of 32, uniform, over activations of deviation 1: about 2e-5."""
    found = ran(make(KERNEL, "Q8_0", "200x4096")).comparison
    assert 1e-5 < found.float_nmse < 1e-4
    assert found.nmse < 1e-12  # against what it read


def test_other_kernels_have_no_figure_against_floats_in_their_lines(make: Any, ran: Any) -> None:
    found = ran(make("matvec/block", "Q8_0", "3x64")).comparison
    assert found.float_nmse is None
    assert "float_nmse" not in codec.encode(found)
    told = codec.encode(ran(make(KERNEL, "Q8_0", "3x64")).comparison)
    assert codec.decode(Comparison, told).float_nmse == told["float_nmse"]
    assert codec.decode(Comparison, codec.encode(replace(found, float_nmse=math.nan))).float_nmse is not None


def done_by_twins(case: Case) -> tuple[Plan, dict[str, np.ndarray]]:
    plan = registry.kernel(KERNEL).plan(case)
    return plan, judge.twin_outputs(plan, inputs.images(case, plan, registry.op("matvec").operands(case)))


def test_activations_of_eight_bits_less_precise_fail(make: Any) -> None:
    """One quant that is off by one: outside by what the second launch read, inside by what was given."""
    case = make(KERNEL, "Q4_0", "9x160")
    plan, images = done_by_twins(case)
    images["quantized"] = images["quantized"].copy()
    at = int(np.argmax(np.abs(images["quantized"][4:36].view(np.int8)) < 100))
    images["quantized"][4 + at] += 1
    found = judge.judge(case, plan, images, 0x7FC0DEAD).comparison
    assert (found.verdict, found.bad) == (
        "FAIL",
        1 + 9,
    )  # the byte itself, and every row that was made of the right one
    assert found.reason.startswith(f"element ({4 + at},) of quantized in launch 0 quantize_q8_1/warp")
    assert found.float_nmse < 1e-3


def test_a_wrong_row_names_its_block(make: Any) -> None:
    case = make(KERNEL, "Q8_0", "4x96")
    plan, images = done_by_twins(case)
    images["out"] = np.zeros(16, np.uint8)
    worst = judge.judge(case, plan, images, 0x7FC0DEAD).comparison.worst
    assert (worst.launch, worst.kernel, worst.buffer) == (1, KERNEL, "out")
    (row,) = worst.index
    weights = plan.buffer("weights").view(images["weights"])
    assert bytes.fromhex(worst.block) in weights[row].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_special_scales_are_the_twins_and_few(make: Any, ran: Any, kind: str) -> None:
    found = ran(make(KERNEL, kind, f"40x{cols(kind, 1)}", "specials")).comparison
    assert found.verdict == "PASS"
    assert found.judge == (
        "oracle" if kind == "NVFP4" else "oracle+twin"
    )  # whose bytes stand for no NaN and no Inf


def test_huge_activations_are_refused_by_name(make: Any, refused: Any) -> None:
    said = refused(make(KERNEL, "Q4_0", "9x96", "specials"))
    assert said == "family specials has activations of 2^100, past q8_1's float16 scale; at most 64 cols"
    assert refused(make(KERNEL, "Q4_0", "9x64", "specials")) == ""


@pytest.mark.parametrize(
    ("sm", "refuses"), [("sm_50", True), ("sm_60", True), ("sm_61", False), ("sm_120", False)]
)
def test_devices_without_dp4a_are_refused_by_name(sm: str, refuses: bool) -> None:
    device = Device(sm, sm, sm, sm, fingerprint=(("sm", sm),))
    said = registry.kernel(KERNEL).refuses_device(device, executes=False)
    assert said == (
        f"matvec/dp4a needs __dp4a, which sm_61 and newer have; this device is {sm}" if refuses else ""
    )
    assert registry.kernel(KERNEL).refuses_device(Device("cpu", "cpu", "cpu", "cpu"), executes=True) == ""


def test_misaligned_weights_are_refused_where_words_are_loaded(make: Any, refused: Any) -> None:
    said = refused(make(KERNEL, "Q4_K", "2x256", layout=Layout(weights_offset=2)))
    assert said.startswith("weights offset: got 2 bytes, want a multiple of 4")
    assert refused(make(KERNEL, "Q6_K", "2x256", layout=Layout(weights_offset=1))) == ""
