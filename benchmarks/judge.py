"""Processor seconds that a large matvec costs beside its launch: twin, oracle and inputs, per kind."""

from __future__ import annotations

import statistics
import time

import numpy as np

from kernels import inputs, judge, registry
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Seeded, Shape
from kernels.op import JudgedOp

KERNEL = "matvec/coalesced"
SIZE = 4096
TURNS = 3
LIMIT_S = 1.5


def seconds(kind: str, seed: int) -> tuple[float, float, float]:
    """Making the inputs, the truth from the oracle, and the twin; a seed of its own: nothing is kept."""
    kernel = registry.launch_kernel(KERNEL)
    op = registry.op(kernel.op)
    assert isinstance(op, JudgedOp)
    drawn = Seeded("ordinary", seed, FIXTURE_VERSION)
    case = Case(
        kernel.op, kernel.name, (kind,), Shape.of(rows=SIZE, cols=SIZE), drawn, drawn, Build.EXACT,
        scalars=op.scalars_of((kind,)),
    )  # fmt: skip
    plan = kernel.plan(case)
    began = time.process_time()
    images = inputs.images(case, plan, op.operands(case))
    made = time.process_time()
    images["out"] = np.zeros(plan.buffer("out").nbytes, np.uint8)
    step = judge.step_of(plan.launches[0], plan, images, "ordinary")
    op.truth(kernel, step)
    judged = time.process_time()
    kernel.twin(step)
    return made - began, judged - made, time.process_time() - judged


def main() -> None:
    print(
        f"{KERNEL} {SIZE}x{SIZE}, processor seconds, median of {TURNS}; twin and oracle: at most {LIMIT_S} s"
    )
    print(f"{'kind':8}{'inputs':>8}{'oracle':>8}{'twin':>8}{'both':>8}")
    for kind in registry.kinds():
        figures = [seconds(kind, seed) for seed in range(TURNS)]
        made, oracle, twin = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"{kind:8}{made:8.2f}{oracle:8.2f}{twin:8.2f}{oracle + twin:8.2f}")


if __name__ == "__main__":
    main()
