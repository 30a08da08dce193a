"""Each gate's power: which wrong kernels the bound catches in which family, and what the usual rules miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kernels import inputs, registry
from kernels.compare import Compared, Place, compare
from kernels.evidence import Verdict
from kernels.judge import nmse, step_of
from kernels.model import Build, Case, Seeded, Shape
from kernels.op import JudgedOp, LaunchKernel, Step, Truth

POISON = 0x7FC0DEAD
LONG = 28_672  # the columns of a 70B down projection
NMSE_RULE = 5e-4

Wrong = Callable[[Step], Step]  # what a wrong kernel reads in place of the truth


@dataclass(frozen=True)
class Bench:
    """A case's step, truth and right output, for wrong outputs to be held against."""

    step: Step
    truth: Truth
    twin: np.ndarray
    kernel: LaunchKernel

    def held(self, got: np.ndarray) -> Compared:
        place = Place(0, self.kernel.id, "out", self.step.family)
        return compare(got, self.twin, self.truth, place, POISON)

    def sabotaged(self, wrong: Wrong) -> Compared:
        return self.held(self.kernel.twin(wrong(self.step)))


def bench(
    family: str,
    rows: int,
    cols: int,
    kind: str = "Q4_0",
    seed: int = 1,
    kernel: str = "coalesced",
    shrink: float = 1.0,  # a power of two that every scale is multiplied by
) -> Bench:
    source = Seeded(family, seed, inputs.FIXTURE_VERSION)
    shape = Shape.of(rows=rows, cols=cols)
    case = Case("matvec", kernel, (kind,), shape, source, source, Build.EXACT)
    launched, op = registry.launch_kernel(f"matvec/{kernel}"), registry.op("matvec")
    assert isinstance(op, JudgedOp)
    plan = launched.plan(case)
    images = inputs.images(case, plan, op.operands(case))
    images["out"] = np.zeros(4 * rows, np.uint8)
    weights = plan.buffer("weights").view(images["weights"]).view(registry.kind(kind).block)
    weights["d"] *= np.float16(shrink)
    step = step_of(plan.launches[0], plan, images, family)
    return Bench(step, op.truth(launched, step), launched.twin(step), launched)


def with_x(step: Step, x: np.ndarray) -> Step:
    return replace(step, arrays={**step.arrays, "x": x})


def last_dropped(step: Step) -> Step:
    x = step.arrays["x"].copy()
    x[-1] = 0
    return with_x(step, x)


def two_swapped(step: Step) -> Step:
    x = step.arrays["x"].copy()
    x[10:12] = x[11:9:-1]
    return with_x(step, x)


def x_as_int8(step: Step) -> Step:
    """Activations quantized to 8 bits in groups of 32, as a fast kernel would."""
    groups = step.arrays["x"].reshape(-1, 32)
    scale = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
    return with_x(step, (np.rint(groups / np.where(scale, scale, 1)) * scale).reshape(-1))


def scales_off_by_one_ulp(step: Step) -> Step:
    """Every row's first block: the float16 scale's last bit."""
    weights = step.arrays["weights"].copy()
    weights[:, 0] ^= 1
    return replace(step, arrays={**step.arrays, "weights": weights})


def block_0_scale_everywhere(step: Step) -> Step:
    assert step.kind is not None
    blocks = step.arrays["weights"].copy().view(step.kind.block)
    blocks["d"] = blocks["d"][:, :1]
    return replace(step, arrays={**step.arrays, "weights": blocks.view(np.uint8)})


@pytest.mark.parametrize("kernel", ["block", "coalesced"])
@pytest.mark.parametrize("family", ["ordinary", "tiny", "onehot", "sparse"])
def test_a_dropped_last_element_at_28672_columns_fails(family: str, kernel: str) -> None:
    right = bench(family, 16, LONG, kernel=kernel)
    assert right.held(right.twin).verdict is Verdict.PASS
    found = right.sabotaged(last_dropped)
    assert found.verdict is Verdict.FAIL
    assert found.positions == 16


def test_dense_families_see_nine_of_ten_dropped_elements_at_28672_columns() -> None:
    """They miss the rows whose last weight is near zero: one of 16 codes of Q4_0 is zero itself."""
    seen = [bench("ordinary", 16, LONG, seed=seed).sabotaged(last_dropped).bad for seed in range(40)]
    assert sum(seen) / (16 * len(seen)) > 0.9
    assert min(seen) >= 11


@pytest.mark.parametrize("family", ["onehot", "sparse"])
def test_onehot_and_sparse_see_a_dropped_element_wherever_its_weight_is_not_zero(family: str) -> None:
    for seed in range(12):
        right = bench(family, 16, LONG, seed=seed)
        assert right.step.kind is not None
        counts = right.step.kind.weights(right.step.arrays["weights"])[:, -1] != 0
        assert right.sabotaged(last_dropped).bad == np.count_nonzero(counts) > 0


WRONG = [last_dropped, two_swapped, x_as_int8, scales_off_by_one_ulp, block_0_scale_everywhere]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("family", ["ordinary", "tiny"])
def test_dense_families_fail_every_wrong_kernel_at_864_columns(family: str, wrong: Wrong) -> None:
    assert bench(family, 37, 864).sabotaged(wrong).verdict is Verdict.FAIL


@pytest.mark.parametrize("wrong", [two_swapped, x_as_int8, block_0_scale_everywhere])
def test_cancelling_fails_what_rounds_or_moves_activations(wrong: Wrong) -> None:
    assert bench("cancelling", 37, 864).sabotaged(wrong).verdict is Verdict.FAIL


@pytest.mark.parametrize("wrong", WRONG[:4], ids=lambda wrong: wrong.__name__)
def test_the_relative_rule_misses_them_at_weights_and_activations_of_real_size(wrong: Wrong) -> None:
    """Weights of 0.02 and activations of 1e-3: why that rule is recorded and doesn't gate."""
    found = bench("tiny", 37, 864, shrink=2.0**-6).sabotaged(wrong)
    assert found.verdict is Verdict.FAIL
    assert found.relative_ratio < 1
    assert found.nan_positions_equal


def test_nmse_misses_a_zeroed_row_of_4096() -> None:
    right = bench("ordinary", 4096, 64)
    got = right.twin.copy()
    got[1234] = 0
    found = right.held(got)
    assert (found.verdict, found.bad) == (Verdict.FAIL, 1)
    assert found.worst_rows[0][0] == 1234
    assert 0 < nmse(found) < NMSE_RULE


def test_nmse_misses_a_dropped_dmin_of_one_block() -> None:
    right = bench("ordinary", 64, 2048, kind="Q4_K")

    def dropped(step: Step) -> Step:
        blocks = step.arrays["weights"].copy().view(step.kind.block)
        blocks["dmin"][7, 3] = 0
        return replace(step, arrays={**step.arrays, "weights": blocks.view(np.uint8)})

    found = right.sabotaged(dropped)
    assert (found.verdict, found.bad) == (Verdict.FAIL, 1)
    assert nmse(found) < NMSE_RULE


@pytest.mark.parametrize("family", ["ordinary", "tiny", "onehot", "sparse", "constant", "cancelling"])
def test_zeros_fail_in_every_family(family: str) -> None:
    right = bench(family, 9, 160)
    found = right.held(np.zeros_like(right.twin))
    assert found.verdict is Verdict.FAIL
    assert found.bad >= 7
