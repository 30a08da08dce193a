"""Cases from the field about numbers: widths and eps, sums that nearly cancel, checkers that are fooled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import inputs, registry
from kernels.evidence import Evidence, Rule, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Device, Plan, Seeded, Shape
from tests.cases.making import (
    KINDS,
    LINEAR,
    RunCase,
    found,
    linear_case,
    npy,
    run_with,
    tokens,
)
from tests.workers.zoo import Wrong
from workers.backend import Run
from workers.backends.twin import BACKEND as TWIN
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import run_case

ROWS = {"rmsnorm/block": 7, "add_rmsnorm/fused": 1}  # add_rmsnorm has one row
EPS = {1e-6: "1e-5f", 1e-5: "1e-6f"}  # an eps, and the other one in CUDA C
MEAN_SQUARE = 4e-4


def norm_case(kernel: str, n: int, eps: float, folder: Path) -> tuple[Case, FileStore]:
    """Rows whose values have a mean square of 4e-4; add_rmsnorm adds a residual of the same size."""
    op_name, name = kernel.split("/")
    rows = ROWS[kernel]
    values = np.random.default_rng(6).uniform(-1, 1, (rows, n))
    values *= np.sqrt(MEAN_SQUARE / np.mean(values**2, axis=1, keepdims=True))
    halves = [values / 2, values / 2] if op_name == "add_rmsnorm" else [values]
    store, x = npy(folder, np.concatenate(halves).astype(np.float32).reshape(-1))
    shape = Shape.of(n=n, rows=rows) if op_name == "rmsnorm" else Shape.of(n=n)
    scalars = (("eps", float(np.float32(eps))),)
    weights = Seeded("ordinary", 0, FIXTURE_VERSION)
    return Case(op_name, name, (), shape, weights, x, Build.EXACT, scalars=scalars), store


@pytest.mark.parametrize("n", [768, 769])
@pytest.mark.parametrize("kernel", ROWS)
def test_case_06_row_width_and_eps_right(run: RunCase, kernel: str, n: int, tmp_path: Path) -> None:
    made = [norm_case(kernel, n, eps, tmp_path) for eps in EPS]
    lines = [run(case, files=store) for case, store in made]
    assert [found(line) for line in lines] == [(Verdict.PASS, ROWS[kernel] * n)] * 2
    assert lines[0].output_digest != lines[1].output_digest


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("n", [768, 769])
@pytest.mark.parametrize("kernel", ROWS)
def test_case_06_row_width_and_other_eps_fails(
    run: RunCase, kernel: str, n: int, eps: float, tmp_path: Path
) -> None:
    """0.5 * 9e-6 / 4e-4: every element is off by 1.1 %."""
    case, store = norm_case(kernel, n, eps, tmp_path)
    line = run(case, Wrong("the other eps", kernel, "", (("+ eps)", f"+ {EPS[eps]})"),)), store)
    assert found(line) == (Verdict.FAIL, ROWS[kernel] * n)
    assert line.comparison is not None
    assert line.comparison.bad == ROWS[kernel] * n


@pytest.mark.parametrize(("n", "verdict"), [(768, Verdict.PASS), (769, Verdict.FAIL)])
@pytest.mark.parametrize("kernel", ROWS)
def test_case_06_row_width_taken_in_pairs_fails_when_it_is_odd(
    run: RunCase, kernel: str, n: int, verdict: Verdict, tmp_path: Path
) -> None:
    """The sum of squares leaves the last element of an odd row out."""
    case, store = norm_case(kernel, n, 1e-6, tmp_path)
    first_loop = "i < n; i += THREADS)" + ("\n        sum +=" if kernel == "rmsnorm/block" else " {")
    wrong = Wrong("in pairs", kernel, "", ((first_loop, first_loop.replace("i < n", "i < n / 2 * 2")),))
    assert found(run(case, wrong, store)) == (verdict, ROWS[kernel] * n)


class Changed:
    """The twin, reading changed activations or putting out a changed output."""

    name = "twin"
    orders = 1

    def __init__(self, moved: float | None = None) -> None:
        self._moved = moved  # what the outputs become; None: activations are cut to bfloat16 instead

    def devices(self) -> tuple[Device, ...]:
        return TWIN.devices()

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        if self._moved is None:
            cut = (images["x"].view(np.uint32) & 0xFFFF0000).view(np.uint8)
            done = TWIN.run(plan, {**images, "x": cut}, device, turn)
            return replace(done, images={**done.images, "x": images["x"]})
        done = TWIN.run(plan, images, device, turn)
        out = np.full(plan.buffer("out").shape, self._moved, np.float32).view(np.uint8).reshape(-1)
        return replace(done, images={**done.images, "out": out})


SINGLE = ("matvec/block", "matvec/coalesced")  # one row, one block: one output


@pytest.mark.parametrize("family", ["ordinary", "tiny", "cancelling"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_09_near_cancelling_rows_raise_no_false_alarm(
    run: RunCase, kernel: str, kind: str, family: str
) -> None:
    lines = [run(linear_case(kernel, kind, 1, blocks, family)) for blocks in (1, 3)]
    assert [found(line) for line in lines] == [(Verdict.PASS, tokens(kernel))] * 2


def cancellation(case: Case) -> float:
    """|sum of w*x| over the sum of |w*x| of the case's one row."""
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    weights = registry.kind(case.kinds[0]).weights(plan.buffer("weights").view(images["weights"]))
    products = weights[0].astype(np.float64) * images["x"].view(np.float32)
    return float(abs(products.sum()) / np.abs(products).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_case_09_near_cancelling_rows_do_cancel(kind: str) -> None:
    assert 0 < cancellation(linear_case("matvec/block", kind, 1, 3, "cancelling")) < 2**-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", SINGLE)
def test_case_09_near_cancelling_rows_give_zeros_no_free_pass(kernel: str, kind: str) -> None:
    """Three blocks are left out: their sum may cancel to less than 256-weight blocks may round off."""
    for family, blocks in (("ordinary", 1), ("ordinary", 3), ("tiny", 1), ("cancelling", 1)):
        line = run_with(Changed(0.0), linear_case(kernel, kind, 1, blocks, family))
        assert found(line) == (Verdict.FAIL, 1), (family, blocks)


SMALL_KINDS = [name for name in KINDS if registry.kind(name).elements == 32]


@pytest.mark.parametrize("kind", SMALL_KINDS)
@pytest.mark.parametrize("kernel", SINGLE)
def test_case_09_near_cancelling_rows_with_bfloat16_activations_fail(kernel: str, kind: str) -> None:
    case = linear_case(kernel, kind, 1, 3, "cancelling")
    assert found(run_with(TWIN, case)) == (Verdict.PASS, 1)
    assert found(run_with(Changed(), case)) == (Verdict.FAIL, 1)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", SINGLE)
def test_case_09_near_cancelling_rows_are_judged_by_the_bound(kernel: str, kind: str, blocks: int) -> None:
    """Nine tenths of the limit off passes, eleven tenths fail, on either side."""
    case = linear_case(kernel, kind, 1, blocks, "cancelling")
    right = run_with(TWIN, case).comparison
    assert right is not None
    assert right.worst is not None
    moved = [right.worst.want + part * right.worst.limit for part in (-1.1, -0.9, 0.9, 1.1)]
    verdicts = [found(run_with(Changed(to), case)) for to in moved]
    assert verdicts == [(Verdict.FAIL, 1), (Verdict.PASS, 1), (Verdict.PASS, 1), (Verdict.FAIL, 1)]


STORES = {
    "matvec/block": ("out[row] = sums[0];", "out[row] = 0.0f;"),
    "matvec/coalesced": ("out[row] = sum;", "out[row] = 0.0f;"),
    "mul_mm/reference": ("out[token * rows + row] = sums[j][i];", "out[token * rows + row] = 0.0f;"),
}


@pytest.mark.parametrize("kernel", LINEAR)
def test_case_10_checker_fooled_by_zeros_where_little_is_expected(
    run: RunCase, kernel: str, tmp_path: Path
) -> None:
    """Activations of 1e-10: the usual rule, 1e-4 of the larger of |want| and 1, lets zeros pass."""
    drawn = 1e-10 * np.random.default_rng(10).uniform(1, 2, tokens(kernel) * 5 * 32)
    store, x = npy(tmp_path, drawn.astype(np.float32))
    case = replace(linear_case(kernel, "Q4_0", rows=9, blocks=5), x=x)
    assert found(run(case, files=store)) == (Verdict.PASS, 9 * tokens(kernel))
    line = run(case, Wrong("zeros", kernel, "Q4_0", (STORES[kernel],)), store)
    assert found(line) == (Verdict.FAIL, 9 * tokens(kernel))
    assert line.comparison is not None
    assert line.comparison.bad == 9 * tokens(kernel)
    assert line.comparison.relative_ratio < 1e-3


def nan_weights(kind_name: str, rows: int, blocks: int) -> np.ndarray:
    """Random blocks whose every scale is NaN."""
    kind = registry.kind(kind_name)
    raw = np.random.default_rng(10).integers(0, 256, (rows, blocks * kind.block_bytes), np.uint8)
    assert kind.poke is not None
    kind.poke(raw.view(kind.block).reshape(-1), np.full(rows * blocks, 0x7EFF, np.uint16))
    assert np.isnan(kind.weights(raw)).all()
    return raw


@pytest.mark.parametrize("rule", list(Rule))
def test_case_10_checker_fooled_by_an_expected_buffer_full_of_nan_refuses_the_fixture(
    rule: Rule, tmp_path: Path
) -> None:
    store, weights = npy(tmp_path, nan_weights("Q4_0", rows=9, blocks=5))
    case = replace(linear_case("matvec/block", "Q4_0", rows=9, blocks=5), weights=weights)
    line = _by_rule(case, rule, store)
    assert found(line) == (Verdict.ERROR, 9)
    assert line.reason.startswith("fixture at fault, out in launch 0 matvec/block: ")
    assert line.rule_verdict is (None if rule is Rule.BOUND else Verdict.ERROR)


def _by_rule(case: Case, rule: Rule, store: FileStore) -> Evidence:
    request = Request("e", case, "twin", TWIN.devices()[0], rule=rule)
    return run_case(request, TWIN, ImageCache(store))


def test_case_10_checker_fooled_by_a_file_full_of_nan_refuses_the_fixture(tmp_path: Path) -> None:
    """A file may hold some NaN; where nothing else is wanted, any kernel that puts out NaN would pass."""
    store, x = npy(tmp_path, np.full(160, np.nan, np.float32))
    line = run_with(TWIN, replace(linear_case("matvec/block", "Q4_0", rows=9, blocks=5), x=x), store)
    assert found(line) == (Verdict.ERROR, 9)
    assert "the oracle wants NaN at all 9 elements" in line.reason
