"""silu_mul/flat: geometry, the edges of exp, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import registry, source
from kernels.exp32 import exp32
from kernels.model import Layout
from kernels.op import JudgedOp, Step, Truth

KERNEL = registry.launch_kernel("silu_mul/flat")


@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (255, 1), (256, 1), (257, 2), (11008, 43)])
def test_grid_covers_n(make: Any, n: int, blocks: int) -> None:
    (launch,) = KERNEL.plan(make(KERNEL.id, "", str(n))).launches
    assert (launch.grid, launch.block) == ((blocks, 1, 1), (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (0, 0)
    assert launch.scalars == {"n": n}


def test_text_defines_the_entry_that_the_plan_launches(make: Any) -> None:
    (launch,) = KERNEL.plan(make(KERNEL.id, "", "1")).launches
    assert f"#define ENTRY {launch.entry}\n" in source.text(KERNEL.id, "")
    assert KERNEL.approximates == ("expf",)
    assert "expf" in source.text(KERNEL.id, "")


@pytest.mark.parametrize("family", ["ordinary", "tiny", "constant", "specials"])
def test_twin_passes(make: Any, ran: Any, family: str) -> None:
    comparison = ran(make(KERNEL.id, "", "1000", family)).comparison
    assert (comparison.verdict, comparison.positions) == ("PASS", 1000)
    assert comparison.bound_ratio > 0


def test_twin_is_the_text_element_by_element(make: Any, ran: Any) -> None:
    done = ran(make(KERNEL.id, "", "37"))
    (step,), (out,) = done.steps, done.outs
    for g, u, got in zip(step.arrays["gate"], step.arrays["up"], out, strict=True):
        assert got == g / (np.float32(1) + exp32(np.array([-g]))[0]) * u


def judged(gate: list[float], up: float) -> tuple[np.ndarray, Truth]:
    """Twin and truth for these gates, all with the same factor."""
    op = registry.op("silu_mul")
    assert isinstance(op, JudgedOp)
    gates = np.array(gate, np.float32)
    arrays = {"gate": gates, "up": np.full(len(gate), up, np.float32)}
    step = Step(arrays, {"n": len(gate)}, None, "specials", True)
    return KERNEL.twin(step), op.truth(KERNEL, step)


def test_edges_of_exp() -> None:
    out, truth = judged([0.0, -0.0, 88, 89, 104, -104, np.inf, -np.inf, np.nan], 2.0)
    assert out[:6].tolist() == [0, 0, 176, 178, 208, 0]
    assert out[6] == np.inf
    assert np.isnan(out[7:]).all()
    assert np.array_equal(np.isnan(truth.want), np.isnan(out))


def test_the_twin_judges_where_exp_overflows_float32() -> None:
    _, truth = judged([-88, -89, -104, 89, -np.inf, 0.0], 1.0)
    assert truth.by_twin.tolist() == [False, True, True, False, False, False]


def test_the_twin_judges_where_the_result_is_no_normal_float32() -> None:
    _, truth = judged([-1.0, -88], 1e-38)
    assert truth.by_twin.tolist() == [True, True]


def test_the_limit_is_relative_with_a_term_for_underflow() -> None:
    _, truth = judged([1.0, -88.0], 2.0)
    assert truth.limit[0] < 1e-6 * truth.want[0]
    assert truth.limit[1] >= 2.0 * 2.0**-120


def test_refuses_nothing_to_do(make: Any, refused: Any) -> None:
    assert refused(make(KERNEL.id, "", "0")).startswith("empty: got 0")


def test_refuses_a_layout_for_matrices(make: Any, refused: Any) -> None:
    said = refused(make(KERNEL.id, "", "8", layout=Layout(row_padding=4)))
    assert "silu_mul has no weight matrix to pad or offset" in said


def test_plan_has_the_views(make: Any) -> None:
    plan = KERNEL.plan(make(KERNEL.id, "", "8", layout=Layout(x_offset=4, x_slack=3)))
    assert [(plan.buffer(name).offset, plan.buffer(name).nbytes) for name in ("gate", "up", "out")] == [
        (4, 48), (4, 48), (0, 32)
    ]  # fmt: skip
