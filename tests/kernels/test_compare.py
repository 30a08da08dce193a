"""compare: nothing outside its limit or its class passes, nothing inside fails."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kernels.compare import (
    CALIBRATED_UNITS,
    OVERFLOW,
    SILU_UNITS,
    SMALLEST,
    Compared,
    Place,
    U,
    compare,
    gamma,
    linear_truth,
    norm_truth,
    output_digest,
    relative_ratio,
    silu_truth,
)
from kernels.dtypes import canonical
from kernels.evidence import Verdict
from kernels.op import Step, Truth

POISON = 0x7FC0DEAD
PLACE = Place(0, "matvec/block", "out", "ordinary")
SPECIALS = replace(PLACE, family="specials")
NON_FINITE = (math.nan, math.inf, -math.inf)

quick = settings(deadline=None, max_examples=60)
shapes = hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=9)
wanted = shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6, width=32)))


def truth_of(want: np.ndarray, limit: float = 0.5, by_twin: bool = False) -> Truth:
    return Truth(want, np.full(want.shape, limit), np.full(want.shape, by_twin))


def held(got: np.ndarray, truth: Truth, twin: np.ndarray | None = None, place: Place = PLACE) -> Compared:
    got = got.astype(np.float32)
    return compare(got, got if twin is None else twin.astype(np.float32), truth, place, POISON)


def step_of(family: str) -> Step:
    return Step({}, {}, None, family, given=True)


@quick
@given(wanted, st.data())
def test_passes_when_every_element_is_inside_its_limit(want: np.ndarray, data: st.DataObject) -> None:
    moves = data.draw(hnp.arrays(np.float64, want.shape, elements=st.floats(-0.9, 0.9)))
    found = held(want + 0.5 * moves, truth_of(want))
    assert (found.verdict, found.reason, found.bad) == (Verdict.PASS, "", 0)
    assert found.positions == want.size
    assert found.bound_ratio <= 1


@quick
@given(wanted, st.data(), st.sampled_from([-1.0, 1.0]), st.floats(1.2, 1e9))
def test_fails_when_one_element_is_moved_beyond_its_limit(
    want: np.ndarray, data: st.DataObject, sign: float, times: float
) -> None:
    index = tuple(data.draw(st.integers(0, side - 1)) for side in want.shape)
    got = want.copy()
    got[index] += sign * times * 0.5
    found = held(got, truth_of(want))
    assert (found.verdict, found.bad) == (Verdict.FAIL, 1)
    assert found.worst is not None
    assert found.worst.index == index
    assert f"element {index} of out in launch 0 matvec/block" in found.reason


@pytest.mark.parametrize("want", [1.0, *NON_FINITE])
@pytest.mark.parametrize("got", [1.0, *NON_FINITE])
@pytest.mark.parametrize("by_twin", [False, True])
def test_class_decides_before_any_tolerance(got: float, want: float, by_twin: bool) -> None:
    """Even where the limit would let anything finite through, and whoever judges."""
    twin = np.array([want, 1.0])
    oracle = np.array([2.0 if by_twin else want, 1.0])
    found = held(np.array([got, 1.0]), truth_of(oracle, 1e30, by_twin), twin, SPECIALS)
    same = got == want or (math.isnan(got) and math.isnan(want))
    assert found.verdict is (Verdict.PASS if same else Verdict.FAIL)
    assert found.bound_ratio == (0.0 if same else math.inf)


@quick
@given(wanted, st.randoms(use_true_random=False))
def test_rows_permuted_give_the_same_comparison(want: np.ndarray, shuffler: object) -> None:
    order = list(range(want.shape[-1]))
    shuffler.shuffle(order)
    got = want + np.linspace(0, 1, want.shape[-1])
    before = held(got, truth_of(want))
    after = held(got[..., order], truth_of(want[..., order]))
    assert (before.verdict, before.bad, before.bound_ratio) == (after.verdict, after.bad, after.bound_ratio)
    assert before.worst_rows[0][1] == after.worst_rows[0][1]
    assert before.relative_ratio == after.relative_ratio


@quick
@given(wanted, st.integers(-30, 30))
def test_a_linear_verdict_does_not_depend_on_the_scale(want: np.ndarray, exponent: int) -> None:
    """Powers of two scale float32 exactly, so error over limit must not move (the underflow term aside)."""
    scale, factor = np.abs(want) + 1, 2.0**exponent
    got = (want + 20 * U * scale).astype(np.float32)

    def ratio(by: float) -> float:
        truth = linear_truth(want * by, scale * by, 100, step_of("ordinary"), products=0)
        return held(got * by, truth).bound_ratio

    assert ratio(1.0) == ratio(factor)


def test_nothing_compared_is_an_error_when_there_is_no_element() -> None:
    found = held(np.zeros((0, 3)), truth_of(np.zeros((0, 3))))
    assert found.verdict is Verdict.ERROR
    assert found.reason.startswith("nothing compared")


def test_outputs_never_written_fail_even_where_nan_is_wanted() -> None:
    got = np.array([1, 2, 3, 4], np.float32)
    got.view(np.uint32)[1:3] = POISON
    want = np.array([1.0, math.nan, 3.0, 4.0])
    found = held(got, truth_of(want), got, SPECIALS)
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith("2 of 4 outputs never written")
    assert (found.bad, found.bound_ratio) == (2, math.inf)
    assert not found.bit_exact  # nor by any other rule, though the twin is NaN there too
    assert not found.nan_positions_equal


def test_another_nan_than_the_poison_counts_as_written() -> None:
    want = np.array([math.nan, 1.0])
    assert held(want, truth_of(want), want, SPECIALS).verdict is Verdict.PASS


@pytest.mark.parametrize("odd", NON_FINITE)
@pytest.mark.parametrize(("family", "verdict"), [("ordinary", Verdict.ERROR), ("specials", Verdict.PASS)])
def test_an_oracle_without_a_finite_answer_is_a_broken_fixture(
    odd: float, family: str, verdict: Verdict
) -> None:
    want = np.array([1.0, odd, odd])
    found = held(want, truth_of(want), want, replace(PLACE, family=family))
    assert found.verdict is verdict
    assert ("fixture at fault" in found.reason) == (verdict is Verdict.ERROR)


@pytest.mark.parametrize("family", ["ordinary", "specials", "file"])
def test_nan_everywhere_is_a_broken_fixture_in_any_family(family: str) -> None:
    want = np.full(3, math.nan)
    found = held(want, truth_of(want), want, replace(PLACE, family=family))
    assert found.verdict is Verdict.ERROR
    assert "fixture at fault" in found.reason


@pytest.mark.parametrize("limit", [math.inf, math.nan, -1.0])
def test_a_limit_that_passes_anything_is_a_broken_fixture(limit: float) -> None:
    assert held(np.ones(2), truth_of(np.ones(2), limit)).verdict is Verdict.ERROR


def test_all_zero_output_fails_when_the_expected_values_are_tiny() -> None:
    want = np.full(64, 1e-5)
    truth = linear_truth(want, 10 * want, 40, step_of("ordinary"), products=32)
    found = held(np.zeros(64), truth, want)
    assert (found.verdict, found.bad) == (Verdict.FAIL, 64)
    assert found.relative_ratio < 1  # the usual rule passes it


def test_the_twin_judges_where_the_domain_rule_says_so() -> None:
    want, twin = np.array([1e30, 1.0]), np.array([0.0, 1.0])
    truth = Truth(want, np.array([0.0, 0.1]), np.array([True, False]), relative=0.5)
    assert held(twin, truth, twin).verdict is Verdict.PASS
    found = held(np.array([1e30, 1.0]), truth, twin)
    assert (found.verdict, found.by_twin, found.bad) == (Verdict.FAIL, 1, 1)
    assert "want the twin's 0" in found.reason


CONTRACTED = replace(PLACE, family="extreme", contracted=True)


@pytest.mark.parametrize(
    ("want", "scale", "right"),
    [
        (2.6e38, 7e38, {math.nan, math.inf, -math.inf, 2.6e38}),  # both halves of the sum leave float32
        (2.6e38, 3e38, {math.inf, 2.6e38}),  # the negative products add up to 0.2e38 alone
        (-2.6e38, 3e38, {-math.inf, -2.6e38}),
        (1e36, 1.8e38, {1e36}),  # neither half can reach it, whatever the order
    ],
)
def test_a_contracted_sum_may_leave_float32_where_its_products_can(
    want: float, scale: float, right: set[float]
) -> None:
    truth = linear_truth(np.array([want]), np.array([scale]), 32, step_of("extreme"), products=32)
    assert truth.by_twin.all()
    for got in (math.nan, math.inf, -math.inf, want, want * 0.9):
        twin = np.array([0.0])  # whose roundings led elsewhere
        expected = any(got == one or (math.isnan(got) and math.isnan(one)) for one in right)
        found = held(np.array([got]), truth, twin, CONTRACTED)
        assert (found.verdict is Verdict.PASS) is expected, got
        assert held(np.array([got]), truth, twin, replace(CONTRACTED, contracted=False)).bad == 1


def test_a_contracted_kernel_gets_no_freedom_from_an_inf_of_its_inputs_or_beside_sums() -> None:
    scales = np.array([math.inf, 7e38])
    truth = linear_truth(np.array([math.inf, math.inf]), scales, 32, step_of("extreme"), products=32)
    assert held(np.full(2, math.nan), truth, np.full(2, math.inf), CONTRACTED).bad == 2
    norm = norm_truth(np.full(1, 2.6e38), np.ones(1, bool), 9)
    assert held(np.array([math.inf]), norm, np.array([2.6e38]), CONTRACTED).bad == 1


def test_the_twins_own_magnitude_is_its_limit() -> None:
    truth = Truth(np.array([9.0]), np.zeros(1), np.array([True]), relative=0.25)
    assert held(np.array([5.0]), truth, np.array([4.0])).bound_ratio == 1.0
    assert held(np.array([5.1]), truth, np.array([4.0])).verdict is Verdict.FAIL


def test_a_twin_outside_the_bound_is_recorded_and_does_not_decide() -> None:
    found = held(np.array([1.0]), truth_of(np.array([1.0])), np.array([7.0]))
    assert (found.verdict, found.twin_agrees, found.bit_exact) == (Verdict.PASS, False, False)


def test_no_error_at_a_limit_of_zero_passes_and_any_error_does_not() -> None:
    truth = truth_of(np.array([0.0, 0.0]), 0.0)
    assert held(np.array([0.0, -0.0]), truth).bound_ratio == 0.0
    assert held(np.array([0.0, 1e-45]), truth).bound_ratio == math.inf


def test_nmse_counts_what_is_finite_in_both() -> None:
    found = held(np.array([1.5, math.nan, 2.0]), truth_of(np.array([1.0, 1.0, 2.0])))
    assert (found.squared_error, found.squared_want) == (0.25, 5.0)


def test_nmse_leaves_out_what_the_twin_judges() -> None:
    want, twin = np.array([1e30, 1.0]), np.array([0.0, 1.0])
    truth = Truth(want, np.array([0.0, 0.1]), np.array([True, False]))
    found = held(np.array([0.0, 1.5]), truth, twin)
    assert (found.squared_error, found.squared_want) == (0.25, 1.0)


@pytest.mark.parametrize(("axis", "row"), [(-1, 2), (0, 1)])
def test_the_worst_rows_follow_the_row_axis(axis: int, row: int) -> None:
    got = np.zeros((2, 6))
    got[1, 2] = 0.25
    found = held(got, truth_of(np.zeros((2, 6))), place=replace(PLACE, row_axis=axis))
    assert found.worst_rows[0] == (row, 0.5)
    assert len(found.worst_rows) == min(4, got.shape[axis])


def test_bit_exact_ignores_the_sign_of_zero_and_the_payload_of_nan() -> None:
    got, twin = np.array([0.0, math.nan, 1.0], np.float32), np.array([-0.0, math.nan, 1.0], np.float32)
    got.view(np.uint32)[1] = 0xFFC12345
    truth = truth_of(np.array([0.0, math.nan, 1.0]))
    assert held(got, truth, twin, SPECIALS).bit_exact
    got[2] = np.nextafter(got[2], np.float32(2))
    assert not held(got, truth, twin, SPECIALS).bit_exact


def test_the_relative_rule_is_recorded_as_it_is() -> None:
    """An error of 1e-4 at 1 is its edge; it passes anything against Inf."""
    assert relative_ratio(np.array([1.0001], np.float32), np.array([1.0], np.float32)) == pytest.approx(
        1.0, rel=1e-2
    )
    assert relative_ratio(np.array([5.0], np.float32), np.array([math.inf], np.float32)) == 0.0
    assert relative_ratio(np.array([math.inf], np.float32), np.array([5.0], np.float32)) == math.inf


def test_gamma_grows_past_its_first_order() -> None:
    assert gamma(1) == U / (1 - U)
    assert gamma(2**20) > 2**20 * U
    assert gamma(2**24) == math.inf


@pytest.mark.parametrize("family", ["onehot", "sparse", "constant", "cancelling", "specials", "file"])
def test_structured_families_have_the_proven_bound(family: str) -> None:
    truth = linear_truth(np.zeros(1), np.ones(1), 996, step_of(family), products=4)
    assert truth.limit[0] == pytest.approx(gamma(1000) + U + 4 * SMALLEST, rel=1e-12)


def test_each_product_may_underflow_once() -> None:
    truth = linear_truth(np.zeros(1), np.zeros(1), 9, step_of("ordinary"), products=7)
    assert truth.limit[0] == 7 * SMALLEST


@pytest.mark.parametrize("family", ["ordinary", "tiny"])
@pytest.mark.parametrize(("chain", "units"), [(5, 9), (4096, CALIBRATED_UNITS)])
def test_zero_mean_families_have_the_calibrated_bound(family: str, chain: int, units: int) -> None:
    truth = linear_truth(np.zeros(1), np.ones(1), chain, step_of(family), products=0)
    assert truth.limit[0] == (units + 1) * U


@pytest.mark.parametrize(
    ("scale", "want", "by_twin"),
    [
        (1.0, 1.0, False),
        (OVERFLOW, 1.0, True),  # the sum may leave float32 on the way
        (math.inf, math.inf, True),  # an Inf input may meet an overflow of the other sign
        (math.inf, math.nan, False),  # Inf - Inf, 0 * Inf, NaN inputs: the same in float32
        (math.nan, math.nan, False),
    ],
)
def test_the_domain_rule_of_sums(scale: float, want: float, by_twin: bool) -> None:
    truth = linear_truth(np.array([want]), np.array([scale]), 9, step_of("specials"), products=1)
    assert truth.by_twin[0] == by_twin
    assert np.isfinite(truth.limit[0])


@pytest.mark.parametrize(("n", "units"), [(1, 13), (256, 13), (257, 13.5), (16384, 44.5)])
def test_norms_err_relative_to_themselves(n: int, units: float) -> None:
    truth = norm_truth(np.full((2, n), -2.0), np.zeros((2, n), bool))
    assert (truth.limit == units * U * 2).all()


def test_a_norm_outside_float32_has_no_limit_but_the_twins() -> None:
    truth = norm_truth(np.full(3, 1e30), np.array([True, False, True]))
    assert (truth.limit[[0, 2]] == 0).all()
    assert truth.relative > 0


def test_silu_has_an_absolute_term_that_scales_with_u() -> None:
    truth = silu_truth(np.array([0.0, 4.0, 0.0]), np.array([8.0, 0.0, math.inf]), np.zeros(3, bool))
    assert truth.limit.tolist() == [8 * 2.0**-120, SILU_UNITS * U * 4, 0.0]


def test_canonical_leaves_its_argument_alone() -> None:
    values = np.array([-0.0], np.float32)
    assert not np.signbit(canonical(values))[0]
    assert np.signbit(values)[0]


def test_the_digest_is_of_name_shape_and_canonical_bits() -> None:
    base = np.array([0.0, math.nan, 1.0, 2.0], np.float32)
    other = np.array([-0.0, math.nan, 1.0, 2.0], np.float32)
    other.view(np.uint32)[1] = 0xFFC00001
    digest = output_digest({"a": base})
    assert digest == output_digest({"a": other}) == output_digest({"a": np.repeat(base, 2)[::2]})
    changed = ({"b": base}, {"a": base.reshape(2, 2)}, {"a": base[::-1]}, {"a": base, "b": base[:0]})
    assert len({digest, *map(output_digest, changed)}) == 5


def twinless(got: np.ndarray, truth: Truth, poison: int | None = POISON) -> Compared:
    return compare(got.astype(np.float32), None, truth, PLACE, poison)


def test_without_a_twin_the_oracle_judges_and_no_bits_are_claimed():
    want = np.arange(4.0)
    found = twinless(want + 0.25, truth_of(want))
    assert (found.verdict, found.positions, found.bound_ratio) == (Verdict.PASS, 4, 0.5)
    assert (found.twinless, found.bit_exact, found.twin_agrees) == (True, False, False)
    assert found.worst is not None
    assert math.isnan(found.worst.twin)
    assert found.relative_ratio == pytest.approx(0.25 / 1e-4)  # against the oracle
    assert twinless(want + 0.75, truth_of(want)).verdict is Verdict.FAIL


def test_without_a_twin_what_it_would_judge_is_counted_out():
    want, handed = np.arange(4.0), np.array([False, True, False, True])
    truth = replace(truth_of(want), by_twin=handed)
    found = twinless(want + 9.0 * handed, truth)
    assert (found.verdict, found.positions) == (Verdict.PASS, 2)
    assert "2 of 4 elements not judged" in found.reason
    assert twinless(want + 9.0, truth).bad == 2  # the other two still are


def test_without_a_twin_nothing_left_to_judge_is_no_pass():
    want = np.arange(3.0)
    found = twinless(want, truth_of(want, by_twin=True))
    assert (found.verdict, found.positions) == (Verdict.SKIP, 0)
    unwritten = np.full(3, np.uint32(POISON)).view(np.float32)
    assert twinless(unwritten, truth_of(want, by_twin=True)).verdict is Verdict.FAIL


def test_where_memory_was_filled_poison_is_a_value_like_any_other():
    want = np.array([math.nan, math.nan, 1.0])
    got = np.full(3, np.uint32(POISON)).view(np.float32)
    got[2] = 1.0
    found = [compare(got, got, truth_of(want), SPECIALS, poison) for poison in (POISON, None)]
    assert [one.verdict for one in found] == [Verdict.FAIL, Verdict.PASS]
    assert found[0].reason.startswith("2 of 3 outputs never written")


def test_a_norm_with_a_longer_chain_is_allowed_more():
    want, inside = np.full((1, 512), -2.0), np.zeros((1, 512), bool)
    usual, given, longer = (norm_truth(want, inside, chain).limit[0, 0] for chain in (None, 2 + 8, 512))
    assert usual == given < longer == (0.5 * 515 + 7) * U * 2
