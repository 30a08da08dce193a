"""What a plan must put out, launch by launch, for who compares without this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels import judge, registry
from kernels.compare import limits, narrowed
from kernels.dtypes import rounded, values
from kernels.errors import FarmError
from kernels.model import Launch, Plan, Role
from kernels.op import JudgedOp


@dataclass(frozen=True)
class Expected:
    """One judged output: right where abs(got - want) <= limit, or both are the same NaN or Inf."""

    buffer: str
    kernel: str
    want: np.ndarray  # float64, in the output's shape
    limit: np.ndarray  # float64; Inf where nobody can judge


def expected(plan: Plan, images: Mapping[str, np.ndarray], family: str) -> tuple[Expected, ...]:
    """By oracle and twin; a launch that reads what another made is given what that one's twin makes.

    FarmError where there is none.
    """
    made = dict(images)
    for buffer in plan.buffers:
        if buffer.role is not Role.IN:
            made[buffer.name] = (
                images[buffer.name].copy() if buffer.given else np.zeros(buffer.nbytes, np.uint8)
            )
    found = []
    with np.errstate(all="ignore"):
        for number, launch in enumerate(plan.checks):
            one, twin = _expected(plan, launch, made, family)
            found.append(one)
            if twin is None and number + 1 < len(plan.checks):
                raise FarmError(f"{launch.kernel} has no twin here, and other launches read what it makes")
            if twin is not None:
                out = plan.buffer(one.buffer).view(made[one.buffer])
                out[...] = rounded(twin, out.dtype)
    return tuple(found)


def _expected(
    plan: Plan, launch: Launch, made: Mapping[str, np.ndarray], family: str
) -> tuple[Expected, np.ndarray | None]:
    op, kernel = registry.op(launch.kernel.split("/")[0]), registry.launch_kernel(launch.kernel)
    assert isinstance(op, JudgedOp)  # only such ops have kernels that are one launch
    step = judge.step_of(launch, plan, made, family)
    name = launch.buffers["out"]
    of = plan.buffer(name).view(made[name]).dtype
    try:
        twin = kernel.twin(step)
    except FarmError:  # a catalog's own code, which runs in the isolated child alone
        twin = None
    if twin is None:
        truth = narrowed(kernel.truth(op, step), None, of)
        return Expected(name, launch.kernel, truth.want, np.where(truth.by_twin, np.inf, truth.limit)), None
    right = values(rounded(twin, of))
    truth = narrowed(kernel.truth(op, step), right, of)
    want = np.where(truth.by_twin, right.astype(np.float64), truth.want)
    return Expected(name, launch.kernel, want, limits(right, truth)), twin
