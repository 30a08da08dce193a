"""judge: every launch against the inputs it really had, one comparison for the plan, and where it failed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from kernels import inputs, registry
from kernels.evidence import Verdict
from kernels.judge import (
    Judged,
    judge,
    outputs,
    puts_out_bytes,
    repeats,
    step_of,
    twin_outputs,
    worst_block,
    written,
)
from kernels.model import BufferArg, Build, Case, Launch, Plan, Role, Seeded, Shape, packed
from kernels.op import JudgedOp

POISON = 0x7FC0DEAD
KIND = "Q8_0"


def case_of(family: str = "ordinary", rows: int = 9, cols: int = 160, **axes: int) -> Case:
    op, kernel = ("mul_mm", "reference") if axes else ("matvec", "block")
    source = Seeded(family, 1, inputs.FIXTURE_VERSION)
    shape = Shape.of(rows=rows, cols=cols, **axes)
    return Case(op, kernel, (KIND,), shape, source, source, Build.EXACT)


def plan_of(case: Case) -> Plan:
    return registry.kernel(f"{case.op}/{case.kernel}").plan(case)


def ran(case: Case, plan: Plan) -> dict[str, np.ndarray]:
    """Right images: made by the twin."""
    made = inputs.images(case, plan_of(case), registry.op(case.op).operands(case))
    return twin_outputs(plan, made)


def out_of(plan: Plan, images: dict[str, np.ndarray], name: str = "out") -> np.ndarray:
    return plan.buffer(name).view(images[name])


def chained(case: Case) -> Plan:
    """Two launches: mid = W x, out = W' mid with the first rows of the same weights."""
    plan = plan_of(case)
    (launch,) = plan.launches
    first = retarget(launch, out="mid")
    second = retarget(launch, x="mid")
    mid = packed("mid", (case.shape["rows"],), Role.SCRATCH)
    return Plan((*plan.buffers, mid), (first, second), case.build)


def retarget(launch: Launch, **names: str) -> Launch:
    args = tuple(
        replace(arg, buffer=names.get(arg.role, arg.buffer)) if isinstance(arg, BufferArg) else arg
        for arg in launch.args
    )
    return replace(launch, args=args)


SQUARE = case_of(rows=64, cols=64)


def judged(case: Case, plan: Plan, images: dict[str, np.ndarray]) -> Judged:
    ticks = count()
    return judge(case, plan, images, POISON, clock=lambda: float(next(ticks)))


@pytest.mark.parametrize("family", ["ordinary", "onehot", "specials"])
def test_a_twin_passes_bit_for_bit(family: str) -> None:
    case = case_of(family)
    found = judged(case, plan_of(case), ran(case, plan_of(case))).comparison
    assert (found.verdict, found.reason, found.positions, found.bad) == (Verdict.PASS, "", 9, 0)
    assert found.bit_exact
    assert found.twin_agrees
    assert found.bound_ratio < 1
    assert found.worst is not None


def test_a_wrong_element_fails_with_its_place_and_figures() -> None:
    case = case_of()
    plan = plan_of(case)
    images = ran(case, plan)
    want = out_of(plan, images)[3]
    out_of(plan, images)[3] += 1
    found = judged(case, plan, images).comparison
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith(f"element (3,) of out in launch 0 matvec/block: got {want + 1:.9g}, want ")
    assert found.reason.endswith("(1 of 9 outside)")
    assert found.worst_rows[0][0] == 3


def test_the_worst_element_carries_the_block_with_the_largest_share() -> None:
    """x is zero but in block 2, so that block it is, of the row that is wrong."""
    case = case_of()
    plan = plan_of(case)
    images = ran(case, plan)
    x, weights = out_of(plan, images, "x"), out_of(plan, images, "weights")
    x[:64] = x[96:] = 0
    images = twin_outputs(plan, {name: images[name] for name in ("weights", "x")})
    out_of(plan, images)[7] = 0
    worst = judged(case, plan, images).comparison.worst
    assert worst is not None
    assert bytes.fromhex(worst.block) == weights[7, 2 * 34 : 3 * 34].tobytes()


def test_a_batch_finds_the_block_by_token_and_row() -> None:
    case = case_of(batch=3)
    plan = plan_of(case)
    images = ran(case, plan)
    x, weights = out_of(plan, images, "x"), out_of(plan, images, "weights")
    x[2, :] = 0
    x[2, 100] = 1
    step = step_of(plan.launches[0], plan, images, "ordinary")
    op = registry.op("mul_mm")
    assert isinstance(op, JudgedOp)
    assert bytes.fromhex(worst_block(op, step, (2, 5))) == weights[5, 3 * 34 : 4 * 34].tobytes()


def test_each_launch_is_judged_against_the_input_it_really_had() -> None:
    """A wrong intermediate, and the right product of it: launch 0 alone is at fault."""
    plan = chained(SQUARE)
    images = ran(SQUARE, plan)
    out_of(plan, images, "mid")[5] += 1
    second = step_of(plan.launches[1], plan, images, "ordinary")
    out_of(plan, images)[:] = registry.launch_kernel("matvec/block").twin(second)
    found = judged(SQUARE, plan, images).comparison
    assert (found.verdict, found.bad, found.positions) == (Verdict.FAIL, 1, 128)
    assert found.reason.startswith("element (5,) of mid in launch 0 ")


def test_a_fault_in_the_second_launch_is_found_there() -> None:
    plan = chained(SQUARE)
    images = ran(SQUARE, plan)
    out_of(plan, images)[5] = 0
    found = judged(SQUARE, plan, images).comparison
    assert found.reason.startswith("element (5,) of out in launch 1 ")
    assert found.worst is not None
    assert found.worst.launch == 1


def test_a_nan_made_by_the_first_launch_is_its_fail_and_no_broken_fixture() -> None:
    plan = chained(SQUARE)
    images = ran(SQUARE, plan)
    out_of(plan, images, "mid")[0] = np.nan
    out_of(plan, images)[:] = np.nan
    found = judged(SQUARE, plan, images).comparison
    assert found.verdict is Verdict.FAIL
    assert "of mid in launch 0" in found.reason


def test_a_nan_among_ordinary_inputs_is_a_broken_fixture() -> None:
    case = case_of()
    plan = plan_of(case)
    images = ran(case, plan)
    out_of(plan, images, "x")[0] = np.nan
    out_of(plan, images)[:] = np.nan
    found = judged(case, plan, images).comparison
    assert found.verdict is Verdict.ERROR
    assert found.reason.startswith("fixture at fault, out in launch 0")


def test_an_output_that_still_is_poison_was_never_written() -> None:
    case = case_of()
    plan = plan_of(case)
    images = ran(case, plan)
    out_of(plan, images)[4:6].view(np.uint32)[:] = POISON
    assert judged(case, plan, images).comparison.reason.startswith("2 of 9 outputs never written: out")


def test_a_plan_without_launches_proves_nothing() -> None:
    case = case_of()
    found = judged(case, Plan((), (), Build.EXACT), {}).comparison
    assert found.verdict is Verdict.ERROR
    assert found.reason.startswith("nothing compared")


def test_the_twin_judges_what_leaves_float32_and_the_comparison_says_so() -> None:
    case = case_of("specials", batch=33)
    plan = plan_of(case)
    images = ran(case, plan)
    found = judged(case, plan, images).comparison
    assert (found.verdict, found.judge) == (Verdict.PASS, "oracle+twin")
    out = out_of(plan, images)
    assert np.isfinite(out).mean() > 0.5
    out[~np.isfinite(out)] = 0
    assert judged(case, plan, images).comparison.verdict is Verdict.FAIL


def test_where_a_sum_overflows_is_the_twins_to_say_in_a_build_without_contraction_alone() -> None:
    """MXFP4's products of this seed come near float32's end: the twin's sum is NaN, a contracted one -Inf."""
    data = Seeded("extreme", 1, inputs.FIXTURE_VERSION)
    case = Case("mul_mm", "tiled", ("MXFP4",), Shape.of(rows=256, cols=32, batch=1), data, data, Build.EXACT)
    images = ran(case, plan_of(case))
    out = out_of(plan_of(case), images)
    assert np.isnan(out[0, 76])
    out[0, 76] = -np.inf
    contracted = replace(case, build=Build.DEFAULT)
    assert judged(contracted, plan_of(contracted), images).comparison.verdict is Verdict.PASS
    assert judged(case, plan_of(case), images).comparison.verdict is Verdict.FAIL
    out[0, 76] = 0
    assert judged(contracted, plan_of(contracted), images).comparison.verdict is Verdict.FAIL


def test_the_digest_is_of_the_outputs_alone_and_times_are_told_apart() -> None:
    plan = chained(SQUARE)
    images = ran(SQUARE, plan)
    first = judged(SQUARE, plan, images)
    out_of(plan, images, "mid")[0] += 1
    assert judged(SQUARE, plan, images).output_digest == first.output_digest
    out_of(plan, images)[0] += 1
    assert judged(SQUARE, plan, images).output_digest != first.output_digest
    assert (first.twin_us, first.oracle_us) == (2e6, 2e6)


def test_repeats_with_equal_bits_give_no_reason() -> None:
    case = case_of("specials")
    turns = [ran(case, plan_of(case)) for _ in range(3)]
    out_of(plan_of(case), turns[1]).view(np.uint32)[np.isnan(out_of(plan_of(case), turns[1]))] = 0xFFC00001
    assert repeats(plan_of(case), turns) == ""


@pytest.mark.parametrize(("name", "turn"), [("out", 1), ("mid", 2)])
def test_repeats_that_differ_in_one_bit_are_nondeterministic(name: str, turn: int) -> None:
    """In an intermediate too, and though both are inside the bound."""
    plan = chained(SQUARE)
    turns = [ran(SQUARE, plan) for _ in range(3)]
    out_of(plan, turns[turn], name).view(np.uint32)[6] ^= 1
    assert repeats(plan, turns) == (
        f"nondeterministic: element (6,) of {name} differs between turn 0 and {turn} (1 of 64 differ)"
    )


def test_steps_know_what_the_case_gave() -> None:
    plan = chained(SQUARE)
    images = ran(SQUARE, plan)
    first, second = (step_of(launch, plan, images, "tiny") for launch in plan.launches)
    assert (first.given, second.given) == (True, False)
    assert (first.family, set(first.arrays)) == ("tiny", {"weights", "x"})
    assert np.array_equal(second.arrays["x"], out_of(plan, images, "mid"))


def test_twin_outputs_share_inputs_and_give_every_buffer() -> None:
    plan = chained(SQUARE)
    made = inputs.images(SQUARE, plan_of(SQUARE), registry.op("matvec").operands(SQUARE))
    found = twin_outputs(plan, made)
    assert set(found) == {buffer.name for buffer in plan.buffers}
    assert found["x"] is made["x"]
    assert set(outputs(plan, found)) == {"out"}
    assert "out" not in made


@pytest.mark.parametrize(
    ("role", "is_written"), [("out", True), ("out2", True), ("outer", False), ("x", False)]
)
def test_written_roles_are_out_and_its_numbers(role: str, is_written: bool) -> None:
    assert written(role) == is_written


def as_dtype(plan: Plan, name: str, dtype: str) -> Plan:
    """The plan with one buffer of another type, packed."""
    kept = {b.name: b for b in plan.buffers}
    kept[name] = packed(name, kept[name].shape, kept[name].role, dtype)
    return replace(plan, buffers=tuple(kept.values()))


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
def test_activations_of_16_bits_are_judged_as_the_numbers_they_are(dtype: str) -> None:
    case = case_of()
    plan = as_dtype(plan_of(case), "x", dtype)
    images = twin_outputs(plan, inputs.images(case, plan, registry.op(case.op).operands(case)))
    step = step_of(plan.launches[0], plan, images, "ordinary")
    assert (step.arrays["x"].dtype, plan.buffer("x").nbytes) == (np.float32, 2 * 160)
    whole = inputs.images(case, plan_of(case), registry.op(case.op).operands(case))["x"].view(np.float32)
    assert 0 < np.abs(step.arrays["x"] - whole).max() < 2.0**-6
    assert judged(case, plan, images).comparison.verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
def test_an_output_of_16_bits_is_judged_in_its_type(dtype: str) -> None:
    case = case_of()
    plan = as_dtype(plan_of(case), "out", dtype)
    images = ran(case, plan_of(case))
    images = twin_outputs(plan, {name: images[name] for name in ("weights", "x")})
    found = judged(case, plan, images)
    assert (found.comparison.verdict, found.comparison.bit_exact) == (Verdict.PASS, True)
    images["out"].view("<u2")[4] += 1  # one ulp
    assert judged(case, plan, images).comparison.bad == 1
    assert judged(case, plan, images).output_digest != found.output_digest


def test_bytes_that_differ_between_turns_were_perhaps_never_written() -> None:
    plan = as_dtype(plan_of(case_of()), "out", "u1")
    assert puts_out_bytes(plan)
    assert not puts_out_bytes(plan_of(case_of()))
    first = {"out": np.arange(9, dtype=np.uint8)}
    second = {"out": np.arange(9, dtype=np.uint8)}
    assert repeats(plan, [first, second]) == ""
    second["out"][5] ^= 0x80
    said = "nondeterministic or never written: element (5,) of out differs between turn 0 and 1"
    assert repeats(plan, [first, second]) == f"{said} (1 of 9 differ)"
