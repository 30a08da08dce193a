"""rmsnorm/block and add_rmsnorm/fused: geometry, order, eps, the ends of float32, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import compare, registry, source
from kernels.ops import _norm as norm

RMSNORM, ADD = registry.launch_kernel("rmsnorm/block"), registry.launch_kernel("add_rmsnorm/fused")
BOTH = [RMSNORM.id, ADD.id]


@pytest.mark.parametrize(("shape", "rows"), [("1", 1), ("257", 1), ("768x7", 7)])
def test_rmsnorm_launches_a_block_per_row(make: Any, shape: str, rows: int) -> None:
    (launch,) = RMSNORM.plan(make(RMSNORM.id, "", shape)).launches
    assert (launch.grid, launch.block) == ((rows, 1, 1), (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (1024, 0)


def test_add_rmsnorm_launches_one_block(make: Any) -> None:
    (launch,) = ADD.plan(make(ADD.id, "", "16384")).launches
    assert (launch.grid, launch.block) == ((1, 1, 1), (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (1024, 0)
    assert set(launch.buffers) == {"x", "residual", "weights", "out"}


@pytest.mark.parametrize("kernel_id", BOTH)
def test_text_defines_the_entry_that_the_plan_launches(make: Any, kernel_id: str) -> None:
    (launch,) = registry.kernel(kernel_id).plan(make(kernel_id, "", "1")).launches
    assert f"#define ENTRY {launch.entry}\n" in source.text(kernel_id, "")
    assert registry.launch_kernel(kernel_id).approximates == ("rsqrtf",)


@pytest.mark.parametrize("kernel_id", BOTH)
@pytest.mark.parametrize("n", [1, 127, 128, 255, 256, 257, 2880, 8192, 16384])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-5])
def test_twin_is_inside_the_relative_bound(make: Any, ran: Any, kernel_id: str, n: int, eps: float) -> None:
    done = ran(make(kernel_id, "", str(n), scalars=(("eps", eps),)))
    (step,), (out,) = done.steps, done.outs
    v = sum(step.arrays[name].astype(np.float64) for name in ("x", "residual") if name in step.arrays)
    want = v / np.sqrt(np.mean(np.square(v)) + np.float32(eps)) * step.arrays["weights"]
    bound = (0.5 * (-(-n // 256) + 11) + 7) * compare.U
    assert (np.abs(out - want) <= bound * np.abs(want)).all()
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", n)


@pytest.mark.parametrize(("n", "chain"), [(1, 9), (256, 9), (257, 10), (2880, 20)])
def test_chain_counts_turns_and_tree(make: Any, ran: Any, n: int, chain: int) -> None:
    assert RMSNORM.chain(ran(make(RMSNORM.id, "", str(n))).steps[0]) == chain


@pytest.mark.parametrize("n", [3, 600])
def test_twin_adds_in_the_order_of_the_text(n: int) -> None:
    draws = np.random.default_rng(4)
    v, weights = (draws.standard_normal(n).astype(np.float32) for _ in range(2))
    sums = [np.float32(0)] * 256
    for i in range(n):
        sums[i % 256] += v[i] * v[i]
    for half in (128, 64, 32, 16, 8, 4, 2, 1):
        sums = [sums[t] + sums[t + half] for t in range(half)]
    scale = np.float32(1 / np.sqrt(np.float64(sums[0] / np.float32(n) + np.float32(1e-5))))
    want = [float(v[i] * scale * weights[i]) for i in range(n)]
    assert norm.norm_twin(v, weights, 1e-5).tolist() == want


def test_rows_are_normed_apart(make: Any, ran: Any) -> None:
    done = ran(make(RMSNORM.id, "", "769x7"))
    (step,), (out,) = done.steps, done.outs
    for row, got in zip(step.arrays["x"], out, strict=True):
        alone = norm.norm_twin(row, step.arrays["weights"], step.scalars["eps"])
        assert got.tobytes() == alone.tobytes()


@pytest.mark.parametrize("kernel_id", BOTH)
def test_eps_is_seen_when_values_are_small(make: Any, ran: Any, kernel_id: str) -> None:
    small, large = (ran(make(kernel_id, "", "257", "tiny", scalars=(("eps", eps),))) for eps in (1e-6, 1e-5))
    assert (np.abs(small.outs[0]) > 1.5 * np.abs(large.outs[0])).all()


def test_eps_reaches_the_kernel_as_float32(make: Any) -> None:
    (launch,) = ADD.plan(make(ADD.id, "", "8", scalars=(("eps", 1e-6),))).launches
    assert launch.scalars["eps"] == float(np.float32(1e-6)) != 1e-6


def test_default_eps_is_float32s_1e_5() -> None:
    assert dict(registry.op("rmsnorm").scalars) == {"eps": float(np.float32(1e-5))}


def by_twin(values: list[float], eps: float) -> bool:
    """Whether the twin judges every element of a row."""
    v = np.array([values], np.float64)
    return bool(norm.norm_truth(v, np.ones(v.shape[1]), eps).by_twin.all())


@pytest.mark.parametrize(
    ("values", "eps", "twin_judges"),
    [
        ([1.0, 2.0], 0.0, False),
        ([1e20, 2e20], 1e-5, True),  # a square overflows
        ([1e-22, 2e-22], 0.0, True),  # a square underflows and counts
        ([1e-22, 2e-22], 1e-5, False),  # it underflows beside eps
        ([0.0, 0.0], 0.0, True),  # rsqrt(0)
        ([np.inf, 1.0], 1e-5, False),  # float64 gives NaN and 0 as float32 does
    ],
)
def test_the_twin_judges_outside_float32(values: list[float], eps: float, twin_judges: bool) -> None:
    assert by_twin(values, eps) == twin_judges


@pytest.mark.parametrize("kernel_id", BOTH)
@pytest.mark.parametrize("n", [257, 768])
def test_huge_and_minute_values_pass(make: Any, ran: Any, kernel_id: str, n: int) -> None:
    done = ran(make(kernel_id, "", str(n), "specials", scalars=norm.NO_EPS))
    assert done.comparison.verdict == "PASS"
    assert done.comparison.judge in ("twin", "oracle+twin")


def test_rsqrt32_rounds_once() -> None:
    x = np.array([1.0, 4.0, 2.0, 0.0, np.inf], np.float32)
    with np.errstate(divide="ignore"):
        assert norm.rsqrt32(x).tolist() == [1.0, 0.5, float(np.float32(2**-0.5)), np.inf, 0.0]


@pytest.mark.parametrize("kernel_id", BOTH)
def test_refuses_nothing_to_do(make: Any, refused: Any, kernel_id: str) -> None:
    assert refused(make(kernel_id, "", "0")).startswith("empty: got 0")


def test_refuses_no_rows(make: Any, refused: Any) -> None:
    assert refused(make(RMSNORM.id, "", "8x0")).startswith("empty: got 8x0")
