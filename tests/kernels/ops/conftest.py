"""Cases and launches for the tests of every op, made from the catalog's own parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kernels import catalog, inputs, judge, registry
from kernels.evidence import Comparison
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Layout, Plan, Seeded
from kernels.op import Step

Make = Callable[..., Case]


@pytest.fixture(scope="session")
def make() -> Make:
    """make("matvec/block", "Q4_0", "2x96") and the fields of a case to set."""

    def case(kernel_id: str, kind: str, shape: str, family: str = "ordinary", **fields: object) -> Case:
        op_name, name = kernel_id.split("/")
        op, drawn = registry.op(op_name), Seeded(family, 3, FIXTURE_VERSION)
        kinds = tuple(kind.split("+")) if "+" in kind else (kind,) * len(op.matrices)
        sizes = catalog.parse_shape(shape, op)
        kernel = registry.kernel(kernel_id)
        made = Case(
            op_name, name, kinds, sizes, drawn, drawn, Build.EXACT, Layout(), op.scalars_of(kinds),
            x_dtype=kernel.x_dtype, out_dtype=kernel.out_dtype, packing=kernel.packing,
        )  # fmt: skip
        return replace(made, **fields)

    return case


@dataclass(frozen=True)
class Ran:
    """A case that its twins did."""

    plan: Plan
    steps: tuple[Step, ...]
    outs: tuple[np.ndarray, ...]  # of every launch, float32
    comparison: Comparison


@pytest.fixture(scope="session")
def ran() -> Callable[[Case], Ran]:
    """The case done by its twins, and judged."""

    def run(case: Case) -> Ran:
        plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
        images = inputs.images(case, plan, registry.op(case.op).operands(case))
        images = judge.twin_outputs(plan, images)
        steps = tuple(judge.step_of(launch, plan, images, case.family) for launch in plan.launches)
        outs = tuple(plan.arrays(launch, images)["out"] for launch in plan.launches)
        return Ran(plan, steps, outs, judge.judge(case, plan, images, 0x7FC0DEAD).comparison)

    return run


@pytest.fixture(scope="session")
def refused() -> Callable[[Case], str]:
    """What op and kernel say against a case, as a runner asks them."""

    def ask(case: Case) -> str:
        return registry.op(case.op).refuses(case) or registry.kernel(f"{case.op}/{case.kernel}").refuses(case)

    return ask
