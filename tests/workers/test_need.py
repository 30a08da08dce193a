"""need: the memory of a case, in figures, before any of it is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels import catalog, registry
from kernels.catalog import Selection
from kernels.model import Build, Case
from kernels.tiers import Tier
from workers.need import bytes_needed, too_large

GIB = 2**30


def needed(case: Case) -> float:
    """GiB."""
    return bytes_needed(case, registry.kernel(f"{case.op}/{case.kernel}").plan(case)) / GIB


def limits(kernel: str, kind: str = "Q4_0") -> list[Case]:
    selection = Selection(kernels=(kernel,), kinds=(kind,), builds=(Build.EXACT,), tiers=(Tier.LIMITS,))
    return [planned.case for planned in catalog.expand(selection)]


@pytest.mark.parametrize(
    ("kernel", "gib"),
    [
        ("matvec/block", [4.6, 8.7]),  # 2 and 4 GiB of weights, made and read; nothing is decoded at once
        ("mul_mm/reference", [4.7, 1.1, 1.1, 48.6]),  # the last: 8 GiB of outputs, judged by sums
    ],
)
def test_weights_past_int32_need_two_copies_and_no_decoded_matrix(kernel: str, gib: list[float]) -> None:
    assert [round(needed(case), 1) for case in limits(kernel)] == gib


@pytest.mark.parametrize(("kernel", "gib"), [("rmsnorm/block", 68.0), ("silu_mul/flat", 72.0)])
def test_outputs_compared_one_by_one_need_most(kernel: str, gib: float) -> None:
    (case,) = limits(kernel, "F32")
    assert round(needed(case), 1) == gib


def test_a_large_product_of_specials_is_compared_one_by_one_and_needs_more() -> None:
    case = limits("mul_mm/reference")[-1]
    drawn = replace(case.x, family="specials")
    assert needed(replace(case, x=drawn, weights=drawn)) > 5 * needed(case)


def test_too_large_gives_both_figures() -> None:
    case = limits("matvec/block")[0]
    plan = registry.kernel("matvec/block").plan(case)
    need = bytes_needed(case, plan)
    assert too_large(case, plan, need) == ""
    short = too_large(case, plan, need - 1)
    assert short == "needs about 4.6 GiB of memory, 4.6 GiB are free; take a smaller shape"
