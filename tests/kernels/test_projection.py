"""projection: what large products are held to, and the size of an error that it sees, as it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from kernels import inputs, judge, projection, registry
from kernels.compare import MAY_BE_NON_FINITE, Compared, Place
from kernels.evidence import Verdict
from kernels.families import FAMILIES
from kernels.model import Build, Case, Plan, Seeded, Shape
from kernels.op import JudgedOp, LaunchKernel, Step
from tests.kernels.test_compare import POISON

ROWS, BATCH = 300, 75  # more rows than are sampled, and a last group that isn't whole


@dataclass(frozen=True)
class Bench:
    """A product's step and right output, for wrong outputs to be held against."""

    case: Case
    plan: Plan
    images: dict[str, np.ndarray]
    op: JudgedOp
    kernel: LaunchKernel
    step: Step
    right: np.ndarray  # (tokens, rows) float32

    def held(self, got: np.ndarray) -> Compared:
        place = Place(0, self.kernel.id, "out", self.step.family)
        return projection.hold(self.op, self.kernel, self.step, got, place, POISON)

    def sums(self, got: np.ndarray) -> projection.Sums:
        return projection.sums(self.op, self.kernel, self.step, got, POISON)


def bench(family: str = "ordinary", kind: str = "Q4_K", blocks: int = 3) -> Bench:
    drawn = Seeded(family, 3, inputs.FIXTURE_VERSION)
    shape = Shape.of(rows=ROWS, cols=blocks * registry.kind(kind).elements, batch=BATCH)
    case = Case("mul_mm", "reference", (kind,), shape, drawn, drawn, Build.EXACT)
    op, kernel = registry.op("mul_mm"), registry.launch_kernel("mul_mm/reference")
    assert isinstance(op, JudgedOp)
    plan = kernel.plan(case)
    images = dict(inputs.images(case, plan, op.operands(case)))
    images["out"] = np.zeros(plan.buffer("out").nbytes, np.uint8)
    step = judge.step_of(plan.launches[0], plan, images, family)
    right = kernel.twin(step)
    assert right is not None
    return Bench(case, plan, images, op, kernel, step, right)


@pytest.fixture(scope="module")
def made() -> Bench:
    return bench()


def unsampled(count: int) -> list[int]:
    return [row for row in range(count) if row not in projection.sample(count)]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in MAY_BE_NON_FINITE])
def test_a_right_product_passes_and_says_what_is_seen(family: str) -> None:
    product = bench(family, "Q8_0")
    found = product.held(product.right)
    assert (found.verdict, found.positions, found.bad) == (Verdict.PASS, ROWS * BATCH, 0)
    seen = f"an error of {product.sums(product.right).seen:.3g} in one element is seen"
    assert found.reason == f"64 rows one by one, all 300 by ±1 sums of 32 tokens, in which {seen}"
    assert not found.bit_exact  # nobody compared the bits of the other rows
    assert found.projected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("token", [0, 31, 32, 74])
def test_an_error_of_the_size_that_is_said_fails_in_any_element(made: Bench, token: int, sign: int) -> None:
    """Of rows that nobody samples; float32 rounds the wrong output, hence the ulp on top."""
    seen = made.sums(made.right).seen * (1 + 2.0**-20)
    for row in unsampled(ROWS)[::20]:
        got = made.right.copy()
        got[token, row] += np.float32(sign * seen)
        found = made.held(got)
        assert (found.verdict, found.bad, found.positions) == (Verdict.FAIL, 1, ROWS * BATCH)
        assert found.worst is not None
        assert found.worst.index == (token // 32 * 32, row)
        assert f"of row {row} of out in launch 0 mul_mm/reference: ±1 sum" in found.reason


def test_a_hundredth_of_it_is_seen_in_sampled_rows_alone(made: Bench) -> None:
    """The price: what one sum covers, an element's own limit would have seen."""
    error = np.float32(made.sums(made.right).seen / 50)
    verdicts = []
    for row in (unsampled(ROWS)[0], int(projection.sample(ROWS)[1])):
        got = made.right.copy()
        got[3, row] += error
        verdicts.append(made.held(got).verdict)
    assert verdicts == [Verdict.PASS, Verdict.FAIL]


def test_swapped_tokens_and_a_token_of_zeros_fail(made: Bench) -> None:
    swapped, zeroed = made.right.copy(), made.right.copy()
    swapped[[4, 5]] = swapped[[5, 4]]
    zeroed[40] = 0
    assert [made.held(got).verdict for got in (swapped, zeroed)] == [Verdict.FAIL] * 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_fails_wherever_it_is(made: Bench, value: float) -> None:
    got = made.right.copy()
    got[70, unsampled(ROWS)[-1]] = value
    found = made.held(got)
    assert (found.verdict, found.bad) == (Verdict.FAIL, 1)


def test_an_output_that_nobody_wrote_fails_by_name(made: Bench) -> None:
    got = made.right.copy()
    got.view(np.uint32)[70, unsampled(ROWS)[-1]] = POISON
    found = made.held(got)
    assert found.verdict is Verdict.FAIL
    assert found.reason == f"1 of {ROWS * BATCH} outputs never written: out in launch 0 mul_mm/reference"


def test_a_fault_in_a_sampled_row_names_that_row(made: Bench) -> None:
    got, row = made.right.copy(), int(projection.sample(ROWS)[5])
    got[3, row] += 1
    found = made.held(got)
    assert found.worst is not None
    assert found.worst.index == (3, row)
    assert found.worst_rows[0][0] == row


def test_only_large_finite_products_in_float32_are_projected(
    made: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    macs = ROWS * BATCH * made.case.shape["cols"]
    monkeypatch.setattr(projection, "FROM_MACS", macs)
    assert not projection.wanted(made.op, made.step, made.right)
    monkeypatch.setattr(projection, "FROM_MACS", macs - 1)
    assert projection.wanted(made.op, made.step, made.right)
    assert not projection.wanted(made.op, made.step, made.right.astype(np.float16))
    assert not projection.wanted(made.op, replace(made.step, family="specials"), made.right)
    silu = registry.op("silu_mul")
    assert isinstance(silu, JudgedOp)
    assert not projection.wanted(silu, made.step, made.right)


def test_the_judge_says_that_it_projected(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "FROM_MACS", 0)
    for wrong, verdict in ((0, Verdict.PASS), (1, Verdict.FAIL)):
        got = made.right.copy()
        got[0, 1] += wrong
        found = judge.judge(
            made.case, made.plan, {**made.images, "out": got.view(np.uint8).reshape(-1)}, POISON
        )
        assert found.comparison.verdict is verdict
        assert found.comparison.judge == "oracle+projection"
        assert found.comparison.positions == ROWS * BATCH
