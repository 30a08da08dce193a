"""mul_mm/mma: float16 factors, float32 sums of no order that is told; a limit of its own, and no twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import inputs, judge, oracle, registry
from kernels.evidence import Comparison, Verdict
from kernels.model import Build, Case, Device, Plan

KERNEL = "mul_mm/mma"


def given(case: Case) -> tuple[Plan, dict[str, np.ndarray]]:
    """A case's plan and images, its output all zero."""
    plan = registry.kernel(KERNEL).plan(case)
    images = inputs.images(case, plan, registry.op("mul_mm").operands(case))
    return plan, {**images, "out": np.zeros(plan.buffer("out").nbytes, np.uint8)}


def judged(case: Case, out: np.ndarray) -> Comparison:
    """The comparison of a case whose launch put `out` out."""
    plan, images = given(case)
    plan.buffer("out").view(images["out"])[...] = out
    return judge.judge(case, plan, images, 0x7FC0DEAD).comparison


def factors(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Weights (rows, cols) and activations (batch, cols) of a case, float64."""
    plan, images = given(case)
    step = judge.step_of(plan.launches[0], plan, images, case.family)
    assert step.kind is not None
    return oracle.weights(step.kind, step.arrays["weights"]), step.arrays["x"].astype(np.float64)


def cut_to(values: np.ndarray, bits: int) -> np.ndarray:
    """float64 rounded towards zero to so many significant bits."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits)


@pytest.mark.parametrize(
    ("shape", "grid"), [("1x256x1", (1, 1, 1)), ("128x256x128", (1, 1, 1)), ("129x256x257", (3, 2, 1))]
)
def test_grid_is_tokens_by_rows(make: Any, shape: str, grid: tuple[int, int, int]) -> None:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, "Q4_K", shape)).launches
    assert (launch.grid, launch.block) == (grid, (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (40960, 0)


def test_it_has_no_twin_and_so_no_exact_build() -> None:
    kernel = registry.launch_kernel(KERNEL)
    assert kernel.builds == (Build.DEFAULT,)
    assert Build.EXACT in kernel.lacks
    assert Build.CHECK not in kernel.lacks


@pytest.mark.parametrize("family", ["ordinary", "constant", "onehot", "cancelling"])
@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "F32"])
def test_sums_cut_after_every_addition_of_rounded_factors_pass(make: Any, kind: str, family: str) -> None:
    """As bad as a tensor core may be: 24 bits, towards zero, one product after the other."""
    case = make(KERNEL, kind, "5x2048x3", family, build=Build.DEFAULT)
    weights, x = (part.astype(np.float16).astype(np.float64) for part in factors(case))
    total = np.zeros((3, 5))
    for column in range(2048):
        total = cut_to(total + np.outer(x[:, column], weights[:, column]), 24)
    found = judged(case, total)
    assert (found.verdict, found.twinless) == (Verdict.PASS, True)
    assert 0 < found.bound_ratio < 1


@pytest.mark.parametrize("family", ["ordinary", "constant"])
def test_factors_of_eight_bits_fail(make: Any, family: str) -> None:
    case = make(KERNEL, "Q8_0", "5x512x3", family, build=Build.DEFAULT)
    weights, x = factors(case)
    assert judged(case, cut_to(x, 8) @ cut_to(weights, 8).T).verdict is Verdict.FAIL


@pytest.mark.parametrize("family", ["ordinary", "onehot", "sparse"])
def test_a_dropped_last_column_fails(make: Any, family: str) -> None:
    case = make(KERNEL, "Q4_K", "5x512x3", family, build=Build.DEFAULT)
    weights, x = factors(case)
    assert judged(case, x @ weights.T).verdict is Verdict.PASS
    x[:, -1] = 0
    assert judged(case, x @ weights.T).verdict is Verdict.FAIL


def test_what_float16_does_not_hold_is_refused_by_name_or_not_judged(make: Any, refused: Any) -> None:
    large = make(KERNEL, "Q4_K", "5x512x3", "large")
    assert refused(large) == "x: family large has numbers past the 65520 from which float16 has Inf"
    assert refused(replace(large, weights=replace(large.weights, family="tiny"))) != ""
    assert "family specials" in refused(make(KERNEL, "Q4_K", "5x768x3", "specials"))
    specials = make(KERNEL, "Q4_K", "40x256x1", "specials", build=Build.DEFAULT)
    weights, x = factors(specials)
    with np.errstate(all="ignore"):
        found = judged(specials, oracle.dot(weights, x))
    assert (found.verdict, found.positions) == (Verdict.PASS, 38)  # two rows have weights past 65,520
    assert found.reason.startswith("2 of 40 elements not judged")


@pytest.mark.parametrize(
    ("sm", "refuses"), [("sm_75", True), ("sm_80", False), ("sm_90", False), ("", False)]
)
def test_a_board_without_the_instruction_is_refused_by_name(sm: str, refuses: bool) -> None:
    device = Device("gpu-0", "gpu", "a board", "GPU-0", fingerprint=(("sm", sm),) if sm else ())
    reason = f"mul_mm/mma needs mma.m16n8k16, which sm_80 and newer have; this device is {sm}"
    assert registry.kernel(KERNEL).refuses_device(device, True) == (reason if refuses else "")
