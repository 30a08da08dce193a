"""The scale of a whole tensor: in every op, in text, twin and truth, once, and each matrix its own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import catalog, registry, source, tensor_scale
from kernels.compare import linear_truth
from kernels.op import Step

KIND = "NVFP4"
KERNELS = [
    kernel.id
    for kernel in registry.all_kernels().values()
    if registry.op(kernel.op).matrices and kernel.serves((KIND,) * len(registry.op(kernel.op).matrices))
]
OPS = list(dict.fromkeys(registry.op(kernel_id.split("/")[0]) for kernel_id in KERNELS))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_matrix_of_such_a_kind_has_a_scale_of_its_own(op: Any) -> None:
    scalars = dict(op.scalars_of((KIND,) * len(op.matrices)))
    assert set(scalars) == {f"{name}_scale" for name in op.matrices}
    assert len(set(scalars.values())) == len(op.matrices)
    for value in scalars.values():
        assert math.frexp(value)[0] != 0.5  # no power of two
        assert value == float(np.float32(value))


def test_in_a_mix_only_such_matrices_have_one() -> None:
    op = registry.op("ffn")
    assert [name for name, _ in op.scalars_of(("Q4_K", KIND, "Q6_K"))] == ["up_scale"]
    assert op.scalars_of(("Q4_K", "Q4_K", "Q6_K")) == ()


def test_given_scales_take_the_place_of_the_defaults() -> None:
    op = registry.op("ffn")
    assert tensor_scale.given(op, ("Q4_K", KIND, KIND), (2.0, 3.0, 4.0)) == (
        ("down_scale", 4.0),
        ("up_scale", 3.0),
    )


@pytest.mark.parametrize(("kernel_id", "kind"), source.texts())
def test_text_has_one_branch_and_the_scale_where_the_kind_has(kernel_id: str, kind: str) -> None:
    text = source.text(kernel_id, kind)
    assert "TENSOR_SCALE" not in text
    has_scale = bool(kind) and registry.kind(kind).tensor_scale
    assert ("float weights_scale)" in text) == has_scale
    assert text.count("weights_scale *") == has_scale


def test_a_body_keeps_the_branch_of_its_kind() -> None:
    body = "a\n#ifdef TENSOR_SCALE\nb\n#else\nc\n#endif\nd\n#ifdef TENSOR_SCALE\ne\n#else\n#endif\n"
    assert source.branched(body, {"TENSOR_SCALE": True}) == "a\nb\nd\ne\n"
    assert source.branched(body, {"TENSOR_SCALE": False}) == "a\nc\nd\n"


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_launches_have_their_matrix_scale_as_last_argument(make: Any, kernel_id: str) -> None:
    op = registry.op(kernel_id.split("/")[0])
    case = make(kernel_id, KIND, "x".join(["192"] * len(op.axes)))
    scalars = dict(case.scalars)
    launches = [launch for launch in registry.kernel(kernel_id).plan(case).launches if launch.kind]
    got = {launch.buffers["weights"]: launch.args[-1] for launch in launches}
    assert {name: (arg.role, arg.value) for name, arg in got.items()} == {
        name: ("weights_scale", scalars[f"{name}_scale"]) for name in op.matrices
    }


@pytest.mark.parametrize("kernel_id", ["matvec/block", "matvec/coalesced", "mul_mm/reference"])
def test_twin_scales_the_finished_sum_and_rounds_once(make: Any, ran: Any, kernel_id: str) -> None:
    shape = "9x192x5" if kernel_id.startswith("mul_mm") else "9x192"
    case = make(kernel_id, KIND, shape)
    scale = np.float32(dict(case.scalars)["weights_scale"])
    (scaled,) = ran(case).outs
    (plain,) = ran(replace(case, scalars=(("weights_scale", 1.0),))).outs
    assert np.array_equal(scaled, (plain.astype(np.float64) * scale).astype(np.float32))
    assert np.abs(plain).max() > 100 * np.abs(scaled).max() > 0


def step(scale: float | None) -> Step:
    kind = replace(registry.kind("Q4_0"), tensor_scale=True)
    return Step({}, {} if scale is None else {"weights_scale": scale}, kind, "constant", True)


def test_truth_and_limit_are_scaled() -> None:
    want, s = np.array([1.0, -2.0]), np.array([8.0, 4.0])
    plain = linear_truth(want, s, 40, replace(step(1.0), kind=registry.kind("Q4_0")), products=32)
    scaled = linear_truth(want, s, 40, step(-0.75), products=32)
    assert np.array_equal(scaled.want, -0.75 * want)
    assert (scaled.limit > 0.75 * plain.limit).all()  # by the one rounding more
    assert (scaled.limit < 0.75 * plain.limit * (1 + 1 / 40)).all()


def test_a_scale_that_overflows_hands_the_element_to_the_twin() -> None:
    truth = linear_truth(np.array([1.0, 2.0**100]), np.array([1.0, 2.0**100]), 40, step(2.0**30), products=32)
    assert truth.by_twin.tolist() == [False, True]


def test_a_launch_without_its_scale_is_no_truth() -> None:
    with pytest.raises(KeyError, match="weights_scale"):
        linear_truth(np.ones(1), np.ones(1), 40, step(None), products=32)


def test_cases_of_other_kinds_have_no_scalars() -> None:
    chosen = catalog.expand(catalog.Selection(ops=tuple(op.name for op in OPS)))
    having = {one.case.kind for one in chosen if one.case.scalars}
    assert having == {kind.name for kind in registry.kinds().values() if kind.tensor_scale}
