"""Bits that a device's own expf and rsqrtf explain, and bits that nothing explains."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import inputs, judge, registry
from kernels.approximate import ULPS, moved, same_bits
from kernels.catalog import Selection, expand
from kernels.model import Build, Case
from workers.backend import POISONS

KERNELS = ("rmsnorm/block", "add_rmsnorm/fused", "silu_mul/flat")


def ordinary(kernel: str) -> Case:
    found = [one.case for one in expand(Selection(kernels=(kernel,), families=("ordinary",)))]
    return next(case for case in found if case.build is Build.EXACT and case.shape["n"] > 200)


def judged(kernel: str, change, approximate: bool = True) -> judge.Judged:
    """A case whose twin's output was changed, as if a device had put that out."""
    case = ordinary(kernel)
    operands = registry.op(case.op).operands(case)
    plan = registry.kernel(kernel).plan(case)
    images = judge.twin_outputs(plan, inputs.images(case, plan, operands))
    out = plan.buffer("out").view(images["out"])
    step = judge.step_of(plan.launches[0], plan, images, case.family)
    out[...] = change(step, out.copy())
    return judge.judge(case, plan, images, POISONS[0], approximate=approximate)


def with_r_off(ulps: int, rows=slice(None)):
    def change(step, out):
        from kernels.ops._norm import norm_scale

        v = step.arrays["x"]
        v = v + step.arrays["residual"] if "residual" in step.arrays else v
        r = norm_scale(v, step.scalars["eps"])
        changed = v * moved(r, ulps)[..., None] * step.arrays["weights"]
        out = out.copy()
        out[rows] = changed[rows]
        return out

    return change


def with_exp_off(ulps: int):
    def change(step, out):
        from kernels.ops.silu_mul.flat import silu

        return np.where(np.arange(out.size) % 3 == 0, silu(step, ulps), out)

    return change


@pytest.mark.parametrize("ulps", [-ULPS, -1, 1, ULPS])
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_the_stated_error_explains_counts_as_exact_and_is_said(kernel: str, ulps: int) -> None:
    change = with_exp_off(ulps) if kernel.startswith("silu") else with_r_off(ulps)
    name = "expf" if kernel.startswith("silu") else "rsqrtf"
    found = judged(kernel, change).comparison
    assert (found.verdict, found.bit_exact, found.explained) == ("PASS", True, f"{name} within 2 ulp")
    strict = judged(kernel, change, approximate=False).comparison
    assert (strict.verdict, strict.bit_exact, strict.explained) == ("PASS", False, "")


@pytest.mark.parametrize("ulps", [-ULPS - 1, ULPS + 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_error_past_the_stated_one_is_not_exact(kernel: str, ulps: int) -> None:
    change = with_exp_off(8 * ulps) if kernel.startswith("silu") else with_r_off(ulps)
    assert not judged(kernel, change).comparison.bit_exact


def test_two_scales_in_one_row_are_not_one_r() -> None:
    def half(step, out):
        changed = with_r_off(2)(step, out)
        n = out.shape[-1]
        return np.where(np.arange(n) < n // 2, changed, out)

    assert not judged("add_rmsnorm/fused", half).comparison.bit_exact


def test_equal_bits_need_no_explanation() -> None:
    found = judged("rmsnorm/block", lambda step, out: out).comparison
    assert (found.bit_exact, found.explained) == (True, "")


def test_moving_keeps_what_has_no_neighbours() -> None:
    x = np.array([0, np.inf, 1, np.finfo(np.float32).max, np.float32(1e-45)], np.float32)
    assert same_bits(moved(x, 2)[[0, 1]], x[[0, 1]]).all()
    assert moved(x, 1)[2] == np.nextafter(np.float32(1), np.float32(2))
    assert moved(x, 2)[3] == x[3]
    assert moved(x, -2)[4] == 0
    assert np.isnan(moved(np.array([np.nan], np.float32), 1)).all()
