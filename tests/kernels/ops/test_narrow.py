"""Kernels over activations of 16 bits: another kernel's text and twin, on what the rounded numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import inputs, judge, registry, source
from kernels.dtypes import bits, dtype, rounded, values
from kernels.families import FAMILIES
from kernels.model import Case
from kernels.ops._linear import NARROW

KERNELS = [kernel.id for kernel in registry.built_in().values() if kernel.narrow]
SHAPES = {"matvec": "9x160", "mul_mm": "5x96x7"}


def shape(kernel_id: str) -> str:
    return SHAPES[kernel_id.partition("/")[0]]


def images(case: Case) -> dict[str, np.ndarray]:
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    return inputs.images(case, plan, registry.op(case.op).operands(case))


def test_both_types_are_there_for_a_vector_and_for_a_batch() -> None:
    assert KERNELS == [
        "matvec/coalesced_bf16", "matvec/coalesced_f16", "mul_mm/reference_bf16", "mul_mm/reference_f16"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", registry.kinds())
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_the_text_is_the_other_kernels_but_for_a_type(kernel_id: str, kind: str) -> None:
    """And the other kernel's text is what it was before there were two."""
    body, x_dtype = kernel_id.rsplit("_", 1)
    narrow, whole = source.text(kernel_id, kind), source.text(body, kind)
    assert source.activations() not in whole
    assert "X_TYPE" not in narrow + whole
    again = narrow.replace(source.activations() + "\n", "").replace(f"const {x_dtype} *", "const float *")
    assert again.replace(f"_{x_dtype}_", "_", 1).replace(f"_{x_dtype} ", " ", 1) == whole


@pytest.mark.parametrize("family", NARROW)
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_activations_are_the_familys_rounded(make: Any, kernel_id: str, family: str) -> None:
    case = make(kernel_id, "Q4_0", shape(kernel_id), family)
    kernel = registry.kernel(kernel_id)
    found = images(case)["x"].view(dtype(kernel.plan(case).buffer("x").dtype))
    body = make(kernel_id.rsplit("_", 1)[0], "Q4_0", shape(kernel_id), family)
    made = images(body)["x"].view(np.float32)
    if family != "specials":  # whose huge numbers fit the type
        assert bits(found).tolist() == bits(rounded(made, found.dtype)).tolist()
    assert np.isfinite(values(found)).any()


@pytest.mark.parametrize("family", [*NARROW, "large", "heavy_tailed"])
@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K", "MXFP4"])
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_twin_passes_on_rounded_numbers(make: Any, ran: Any, kernel_id: str, kind: str, family: str) -> None:
    sizes = "9x768" if kernel_id.startswith("matvec") else "5x256x7"
    done = ran(make(kernel_id, kind, sizes, family))
    (step,) = done.steps
    assert step.arrays["x"].dtype == np.float32
    assert (done.comparison.verdict, done.comparison.reason) == ("PASS", "")


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_a_twin_of_unrounded_activations_fails(make: Any, ran: Any, kernel_id: str) -> None:
    """What a kernel computes that is given float32 where the case says 16 bits is outside the bound."""
    done = ran(make(kernel_id, "Q4_0", shape(kernel_id)))
    body = make(kernel_id.rsplit("_", 1)[0], "Q4_0", shape(kernel_id))
    whole = ran(body)
    case, plan = make(kernel_id, "Q4_0", shape(kernel_id)), done.plan
    wrong = judge.twin_outputs(plan, images(case)) | {"out": whole.outs[0].copy().view(np.uint8).reshape(-1)}
    found = judge.judge(case, plan, wrong, 0x7FC0DEAD).comparison
    assert (found.verdict, found.positions) == ("FAIL", whole.outs[0].size)
    assert found.bad > found.positions / 2


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_float32_activations_are_refused(make: Any, refused: Any, kernel_id: str) -> None:
    x_dtype = registry.kernel(kernel_id).x_dtype
    case = make(kernel_id, "Q4_0", shape(kernel_id), x_dtype="f32")
    assert refused(case) == f"x dtype: got f32, want {x_dtype}"


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"specials"}))
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_no_family_leaves_the_range_of_16_bits(make: Any, kernel_id: str, family: str) -> None:
    case = make(kernel_id, "Q4_0", shape(kernel_id), family)
    found = images(case)["x"].view(dtype(registry.kernel(kernel_id).plan(case).buffer("x").dtype))
    assert np.isfinite(values(found)).all()
