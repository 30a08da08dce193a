"""Judges a plan that ran: each launch's output against oracle and twin on the inputs it really had."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernels import packing, projection, registry
from kernels.approximate import ULPS
from kernels.compare import Compared, Place, compare, output_digest
from kernels.dtypes import bits, canonical, rounded, values
from kernels.errors import FarmError
from kernels.evidence import Comparison, Verdict
from kernels.model import Build, Case, Launch, Plan, Role
from kernels.op import JudgedOp, LaunchKernel, Step
from kernels.thinning import thinned

Images = Mapping[str, np.ndarray]  # buffer name -> (nbytes,) uint8
Clock = Callable[[], float]  # seconds


class NoTwin(FarmError):
    """A plan that is to be evaluated by twins has a kernel without one (SKIP)."""


CONTRACTED = (Build.DEFAULT, Build.DECLARED)  # builds in which a product and a sum may be rounded as one


@dataclass(frozen=True)
class Judged:
    """The comparison, the digest of what the plan put out, and what judging took."""

    comparison: Comparison
    output_digest: str
    twin_us: float
    oracle_us: float


@dataclass(frozen=True)
class _Launched:
    """One launch, judged."""

    op: JudgedOp
    kernel: LaunchKernel
    step: Step
    got: np.ndarray
    compared: Compared
    twin_us: float
    oracle_us: float


def judge(
    case: Case,
    plan: Plan,
    images: Images,
    poison: int,
    clock: Clock = time.perf_counter,
    given: Images | None = None,
    approximate: bool = False,
) -> Judged:
    """Compares every launch of `plan`; `images` has every buffer as it was after the run.

    `given` has what INOUT buffers held before; a plan without any needs none. `approximate` says that expf
    and rsqrtf were a device's own: bits that their stated error explains count as the twin's.
    """
    before = {b.name: (given or {})[b.name] for b in plan.buffers if b.role is Role.INOUT}
    with np.errstate(all="ignore"):
        launched = [
            _judge_launch(number, launch, plan, (images, before), case, poison, clock)
            for number, launch in enumerate(plan.checks)
        ]
        if approximate:
            launched = [_explained(one) for one in launched]
        comparison = combine([one.compared for one in launched])
        if comparison.worst is not None:
            worst = comparison.worst
            block = worst_block(launched[worst.launch].op, launched[worst.launch].step, worst.index)
            comparison = replace(comparison, worst=replace(worst, block=block))
        comparison = replace(comparison, float_nmse=against_floats(case, plan, images))
    return Judged(
        comparison,
        output_digest(outputs(plan, images)),
        sum(one.twin_us for one in launched),
        sum(one.oracle_us for one in launched),
    )


def _judge_launch(
    number: int,
    launch: Launch,
    plan: Plan,
    memory: tuple[Images, Images],
    case: Case,
    poison: int,
    clock: Clock,
) -> _Launched:
    images, before = memory  # after the run, and what INOUT buffers held before
    op = registry.op(launch.kernel.split("/")[0])
    kernel = registry.launch_kernel(launch.kernel)
    assert isinstance(op, JudgedOp)  # only such ops have kernels that are one launch
    step = step_of(launch, plan, {**images, **before}, case.family)
    name = launch.buffers["out"]
    place = Place(
        number, launch.kernel, name, case.family, -1 if launch.kind else 0, case.build in CONTRACTED
    )
    out = plan.buffer(name)
    got = out.view(images[name])
    was = poison if out.fill is None and out.role is not Role.INOUT else None
    started = clock()
    if not kernel.own_truth and projection.wanted(op, step, got):
        compared = projection.hold(op, kernel, step, got, place, was)
        return _Launched(op, kernel, step, got, compared, 0.0, 1e6 * (clock() - started))
    thin = thinned(op, step)
    truth = thin.truth(kernel.truth(op, thin.step))
    between = clock()
    twin = kernel.twin(thin.step)
    ended = clock()
    compared = compare(got, None if twin is None else thin.spread(twin), truth, place, was)
    took = 1e6 * (ended - between), 1e6 * (between - started)
    return _Launched(op, kernel, step, got, compared, *took)


def _explained(one: _Launched) -> _Launched:
    """A right launch, exact too where the stated error of its approximations explains other bits."""
    found, names = one.compared, one.kernel.approximates
    if found.bit_exact or found.verdict is not Verdict.PASS or not one.kernel.explains(one.step, one.got):
        return one
    explained = f"{' and '.join(names)} within {ULPS} ulp"
    return replace(one, compared=replace(found, bit_exact=True, explained=explained))


def against_floats(case: Case, plan: Plan, images: Images) -> float | None:
    """NMSE of the last launch's output as if it had read the activations that the plan quantized for it.

    None for a kernel that quantizes none; over elements that are finite in both.
    """
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    if not kernel.float_x:
        return None
    launch, x = plan.launches[-1], plan.buffer(kernel.float_x)
    step = step_of(launch, plan, images, case.family)
    step = replace(step, arrays={**step.arrays, "x": values(x.view(images[x.name]))})
    op = registry.op(case.op)
    assert isinstance(op, JudgedOp)  # the kernel's own launch is one of its op
    thin = thinned(op, step)
    want = thin.truth(registry.launch_kernel(launch.kernel).truth(op, thin.step)).want
    error = values(plan.arrays(launch, images)["out"]).astype(np.float64) - want
    counted = np.isfinite(error)
    return _share(float(np.sum(np.square(error[counted]))), float(np.sum(np.square(want[counted]))))


def step_of(launch: Launch, plan: Plan, images: Images, family: str) -> Step:
    """The launch's actual operands: matrices as GGML blocks, 16-bit floats as float32.

    They are given where no other launch made them.
    """
    arrays = packing.unpacked(plan, launch, images)
    read = {role: values(array) for role, array in arrays.items() if not written(role)}
    given = all(plan.buffer(name).given for role, name in launch.buffers.items() if not written(role))
    kind = registry.kind(launch.kind) if launch.kind else None
    return Step(read, launch.scalars, kind, family, given)


def written(role: str) -> bool:
    """True for the roles that a launch writes: out, out2, …"""
    return role == "out" or (role.startswith("out") and role[3:].isdigit())


def combine(found: Sequence[Compared]) -> Comparison:
    """One comparison of a plan's launches: the first one at fault gives reason and worst element."""
    if not found:
        return _nothing()
    first = _first_at_fault(found) or max(found, key=lambda one: one.bound_ratio)
    return Comparison(
        verdict=first.verdict,
        reason=first.reason,
        judge=_judges(found),
        positions=sum(one.positions for one in found),
        bad=sum(one.bad for one in found),
        bound_ratio=max(one.bound_ratio for one in found),
        relative_ratio=max(one.relative_ratio for one in found),
        nan_positions_equal=all(one.nan_positions_equal for one in found),
        nmse=max(nmse(one) for one in found),
        bit_exact=all(one.bit_exact for one in found),
        twin_agrees=all(one.twin_agrees for one in found),
        worst=first.worst,
        worst_rows=first.worst_rows,
        twinless=any(one.twinless for one in found),
        explained=", ".join(dict.fromkeys(one.explained for one in found if one.explained)),
    )


def _judges(found: Sequence[Compared]) -> str:
    by_twin = sum(one.by_twin for one in found)
    if by_twin == sum(one.positions for one in found):
        return "twin"
    parts = (("twin", by_twin), ("projection", any(one.projected for one in found)))
    return "+".join(("oracle", *(name for name, took_part in parts if took_part)))


def _first_at_fault(found: Sequence[Compared]) -> Compared | None:
    """FAIL before ERROR: a wrong output makes the oracle of the launches that read it look broken."""
    for verdict in (Verdict.FAIL, Verdict.ERROR):
        for one in found:
            if one.verdict is verdict:
                return one
    return None


def _nothing() -> Comparison:
    return Comparison(
        verdict=Verdict.ERROR,
        reason="nothing compared: the plan has no launches",
        judge="oracle",
        positions=0,
        bad=0,
        bound_ratio=0.0,
        relative_ratio=0.0,
        nan_positions_equal=True,
        nmse=0.0,
        bit_exact=False,
        twin_agrees=False,
        worst=None,
    )


def nmse(compared: Compared) -> float:
    """Squared error over squared truth; Inf for an error where the truth is all zero."""
    return _share(compared.squared_error, compared.squared_want)


def _share(error: float, want: float) -> float:
    if not error:
        return 0.0
    return error / want if want else math.inf


def worst_block(op: JudgedOp, step: Step, index: tuple[int, ...]) -> str:
    """Hex of the weight block with the largest share |w||x| in the sum of output element `index`."""
    if step.kind is None:
        return ""
    row, x = op.factors(step, index)
    products = np.abs(step.kind.weights(row)[0] * x)
    share = np.nan_to_num(products, nan=np.inf).reshape(-1, step.kind.elements).sum(axis=1)
    block = int(np.argmax(share)) * step.kind.block_bytes
    return row[0, block : block + step.kind.block_bytes].tobytes().hex()


def outputs(plan: Plan, images: Images) -> dict[str, np.ndarray]:
    """The logical arrays of the OUT and INOUT buffers."""
    return {b.name: b.view(images[b.name]) for b in plan.buffers if b.put_out}


def written_buffers(plan: Plan) -> list[str]:
    """The names of what is judged, in the order of the launches that write it."""
    return [name for launch in plan.checks for role, name in launch.buffers.items() if written(role)]


def puts_out_bytes(plan: Plan) -> bool:
    """Whether a launch writes bytes, in which no poison can be told from a right value."""
    return any(plan.buffer(name).dtype == "u1" for name in written_buffers(plan))


def repeats(plan: Plan, turns: Sequence[Images]) -> str:
    """Why turns of one case differ, which is a FAIL; empty if every written element has the same bits.

    Each turn starts with a poison of its own, so that bytes which nobody writes differ too. Empty as well
    where the plan says that turns may differ.
    """
    if not plan.deterministic:
        return ""
    for name in written_buffers(plan):
        first = _canonical_bits(plan, name, turns[0])
        for turn, images in enumerate(turns[1:], start=1):
            if differing := np.argwhere(first != _canonical_bits(plan, name, images)).tolist():
                element = f"element {tuple(differing[0])} of {name} differs between turn 0 and {turn}"
                why = (
                    "nondeterministic or never written"
                    if plan.buffer(name).dtype == "u1"
                    else "nondeterministic"
                )
                return f"{why}: {element} ({len(differing)} of {first.size} differ)"
    return ""


def _canonical_bits(plan: Plan, name: str, images: Images) -> np.ndarray:
    return bits(canonical(plan.buffer(name).view(images[name])))


def twin_outputs(plan: Plan, images: Images) -> dict[str, np.ndarray]:
    """The images of all buffers after every launch was done by its twin; IN images are shared, not copied."""
    result = dict(images)
    for buffer in plan.buffers:
        if buffer.role is not Role.IN:
            given = buffer.role is Role.INOUT
            result[buffer.name] = images[buffer.name].copy() if given else np.zeros(buffer.nbytes, np.uint8)
    with np.errstate(all="ignore"):
        for launch in plan.checks:
            # Twins compute; only truths look at the family.
            step = step_of(launch, plan, result, family="")
            name = launch.buffers["out"]
            made = registry.launch_kernel(launch.kernel).twin(step)
            if made is None:
                raise NoTwin(f"{launch.kernel} has no twin; take another backend, or declare one")
            out = plan.buffer(name).view(result[name])
            out[...] = rounded(made, out.dtype)
    return result
