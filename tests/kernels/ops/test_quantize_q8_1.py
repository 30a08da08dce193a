"""quantize_q8_1: ggml's bytes, a float64 oracle's demands, and what NaN, Inf and tiny blocks become."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import inputs, judge, registry
from kernels.evidence import Verdict
from kernels.families import FAMILIES
from kernels.model import Case
from kernels.ops import _q8_1
from kernels.ops._q8_1 import BLOCK, ELEMENTS, oracle, quantize, row_bytes, values

KERNEL = "quantize_q8_1/warp"
GOLDEN = Path(__file__).parents[2] / "data" / "activations_q8.npz"
TIES = 7  # the row of the golden data with values half way between two steps


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def block(*activations: float) -> np.ndarray:
    """One block, zero behind the activations given."""
    x = np.zeros((1, ELEMENTS), np.float32)
    x[0, : len(activations)] = activations
    return x


def quantized(x: np.ndarray) -> np.ndarray:
    (made,) = quantize(x).view(BLOCK).reshape(-1)
    return made


def test_blocks_are_ggmls_byte_for_byte(golden: dict[str, np.ndarray]) -> None:
    made = quantize(golden["x"])
    assert made.shape == (8, row_bytes(1024)) == (8, 32 * 36)
    assert made.tobytes() == golden["q8_1_ref_blocks"].tobytes()


def test_the_row_of_ties_tells_the_rules_apart(golden: dict[str, np.ndarray]) -> None:
    """Portable C and CUDA round halves away from zero, AVX2 to even: the other flavour isn't ours."""
    made = quantize(golden["x"]).reshape(8, 32, 36)
    differ = (made != golden["q8_1_avx2_blocks"]).any(axis=(1, 2))
    assert np.flatnonzero(differ).tolist() == [TIES]
    even = quantize_by(golden["x"], np.rint)
    assert (even != quantize(golden["x"]))[TIES].sum() > 100
    assert even.tobytes() == golden["q8_1_avx2_blocks"].tobytes()


def quantize_by(x: np.ndarray, rule: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The twin with another rule for halves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_q8_1, "away_from_zero", rule)
        return quantize(x)


@pytest.mark.parametrize(("number", "q"), [(0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3), (0.49999997, 0)])
def test_halves_round_away_from_zero(number: float, q: int) -> None:
    assert quantized(block(127.0, number))["qs"][1] == q  # d is 1


def test_the_oracle_is_sure_of_ggmls_bytes_but_for_halves(golden: dict[str, np.ndarray]) -> None:
    want, unsure = oracle(golden["x"])
    blocks = golden["q8_1_ref_blocks"].reshape(8, -1)
    assert (want == blocks)[~unsure].all()
    assert unsure[:TIES].mean() < 0.001
    assert 0.2 < unsure[TIES].mean() < 0.9


@pytest.mark.parametrize("rows", [1, 21])
@pytest.mark.parametrize("family", FAMILIES)
def test_d_q_and_s_are_right_by_float64(make: Any, family: str, rows: int) -> None:
    """Not by the twin's arithmetic: x is within half a step, d and s are the nearest float16."""
    x = activations(make(KERNEL, "", f"288x{rows}", family))
    blocks = quantize(x).view(BLOCK).reshape(-1)
    v = x.astype(np.float64).reshape(-1, ELEMENTS)
    d = np.abs(v).max(axis=1) / 127
    sound = np.isfinite(d) & (d >= 2.0**-126)
    assert sound.any() or (family, rows) == ("specials", 1)
    blocks, v, d = blocks[sound], v[sound], d[sound]
    assert (np.abs(d[:, None] * blocks["qs"] - v) <= d[:, None] * (0.5 + 1e-4)).all()
    with np.errstate(over="ignore"):
        for field, right in (("d", d), ("s", d * blocks["qs"].sum(axis=1, dtype=np.float64))):
            near = [(right * (1 + part * 2.0**-22)).astype(np.float16) for part in (-1, 1)]
            assert ((blocks[field] == near[0]) | (blocks[field] == near[1])).all(), field


def activations(case: Case) -> np.ndarray:
    plan = registry.kernel(KERNEL).plan(case)
    made = inputs.images(case, plan, registry.op(case.op).operands(case))
    return np.array(plan.buffer("x").view(made["x"]))


def test_values_are_d_times_q(golden: dict[str, np.ndarray]) -> None:
    found = values(quantize(golden["x"]))
    blocks = golden["q8_1_ref_blocks"].reshape(-1).view(BLOCK)
    assert found.shape == (8, 1024)
    assert found[0, 5] == float(blocks["d"][0]) * int(blocks["qs"][0, 5])
    assert np.abs(found - golden["x"]).max() < 100 * 5 / 127


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_block_with_nan_or_inf_has_no_quants_and_says_so_in_d(bad: float) -> None:
    made = quantized(block(3.0, bad, -5.0))
    assert made["qs"].tolist() == [0] * ELEMENTS
    assert math.isnan(made["d"]) if math.isnan(bad) else made["d"] == math.inf
    assert math.isnan(made["s"])
    assert np.isnan(values(made.reshape(1).view(np.uint8))).all()  # whatever it meets becomes NaN
    assert quantize(block(3.0, bad)).tobytes() == oracle(block(3.0, bad))[0].astype(np.uint8).tobytes()


def test_a_block_of_zeros_is_all_zero() -> None:
    assert quantize(block(0.0, -0.0)).tolist() == [[0] * 36]


@pytest.mark.parametrize(
    ("size", "d", "q"),
    [
        (127 * 2.0**-25, 0.0, 127),  # half of float16's smallest: to even
        (127 * 2.0**-24, 2.0**-24, 127),
        (2.0**-120, 0.0, 127),  # d is a subnormal float32 and its inverse is finite
        (2.0**-130, 0.0, 0),  # its inverse overflows
        (127 * 65504.0, 65504.0, 127),
        (2.0**100, math.inf, 127),  # past float16: what the block meets is Inf or NaN
    ],
)
def test_d_leaves_float16s_range(size: float, d: float, q: int) -> None:
    made = quantized(block(size))
    assert (float(made["d"]), int(made["qs"][0])) == (d, q)


def test_s_overflows_float16_where_32_activations_are_2048() -> None:
    """As in ggml; matvec/dp4a sums the quants itself and never reads s."""
    made = quantized(np.full((1, ELEMENTS), 2048, np.float32))
    assert (float(made["d"]), int(made["qs"].sum())) == (float(np.float16(2048 / 127)), 127 * 32)
    assert made["s"] == math.inf


@pytest.mark.parametrize("family", FAMILIES)
def test_twin_passes_and_nearly_every_byte_is_the_oracles(make: Any, ran: Any, family: str) -> None:
    done = ran(make(KERNEL, "", "96x21", family))
    found = done.comparison
    assert (found.verdict, found.positions, found.bit_exact) == (Verdict.PASS, 21 * 108, True)
    (step,) = done.steps
    assert oracle(step.arrays["x"])[1].mean() < 0.01


@pytest.mark.parametrize("at", [0, 3, 4, 35, 36, 107])
def test_one_wrong_bit_of_any_byte_fails(make: Any, ran: Any, at: int) -> None:
    case = make(KERNEL, "", "96x2")
    done = ran(case)
    images = dict(judge.twin_outputs(done.plan, {"x": x_image(case)}))
    images["out"][108 + at] ^= 1
    found = judge.judge(case, done.plan, images, 0x7FC0DEAD).comparison
    assert (found.verdict, found.bad) == (Verdict.FAIL, 1)
    assert found.reason.startswith(f"element (1, {at}) of out in launch 0 quantize_q8_1/warp")


def x_image(case: Case) -> np.ndarray:
    plan = registry.kernel(KERNEL).plan(case)
    return inputs.images(case, plan, registry.op(case.op).operands(case))["x"]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("0", "empty"),
        ("48", "n 48 is not a whole number of q8_1's 32-element blocks; pad to 64"),
        ("32x0", "empty"),
        ("1073741824x128", "4294967296 blocks are past int32's 2147483647"),
    ],
)
def test_refuses_shapes(make: Any, refused: Any, shape: str, reason: str) -> None:
    assert reason in refused(make(KERNEL, "", shape))


@pytest.mark.parametrize(("shape", "grid"), [("32", 1), ("256", 1), ("288", 2), ("96x21", 8)])
def test_a_warp_takes_a_block_and_a_thread_block_eight(make: Any, shape: str, grid: int) -> None:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, "", shape)).launches
    assert (launch.grid, launch.block) == ((grid, 1, 1), (256, 1, 1))
    assert launch.entry == "quantize_q8_1_warp"
