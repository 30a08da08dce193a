"""thinning: zero rows are summed once, every output is still held to its own truth."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import inputs, judge, registry
from kernels.model import Build, Case, Layout, Seeded, Shape
from kernels.op import JudgedOp, LaunchKernel, Step
from kernels.thinning import Thinned, thinned


def step_of(
    op_name: str, kernel_name: str, kind: str, family: str, rows: int, layout: Layout | None = None
) -> tuple[JudgedOp, LaunchKernel, Step]:
    drawn = Seeded(family, 1, inputs.FIXTURE_VERSION)
    sizes = {"rows": rows, "cols": 3 * registry.kind(kind).elements}
    shape = Shape.of(**sizes, **({"batch": 5} if op_name == "mul_mm" else {}))
    op, kernel = registry.op(op_name), registry.launch_kernel(f"{op_name}/{kernel_name}")
    where, scalars = layout or Layout(), op.scalars_of((kind,))
    case = Case(op_name, kernel_name, (kind,), shape, drawn, drawn, Build.EXACT, where, scalars)
    assert isinstance(op, JudgedOp)
    plan = kernel.plan(case)
    images = dict(inputs.images(case, plan, op.operands(case)))
    images["out"] = np.zeros(plan.buffer("out").nbytes, np.uint8)
    return op, kernel, judge.step_of(plan.launches[0], plan, images, family)


@pytest.mark.parametrize("kind", list(registry.kinds()))
@pytest.mark.parametrize("name", ["matvec/block", "matvec/coalesced", "mul_mm/reference"])
def test_truth_and_twin_are_those_of_the_whole_matrix(name: str, kind: str) -> None:
    op, kernel = name.split("/")
    layout = Layout(row_padding=2 * registry.kind(kind).lane_align)
    judged, launched, step = step_of(op, kernel, kind, "last_row", 40, layout)
    thin = thinned(judged, step, from_bytes=0)
    assert len(thin.step.arrays["weights"]) == 2
    whole, part = judged.truth(launched, step), thin.truth(judged.truth(launched, thin.step))
    assert np.allclose(whole.want, part.want, rtol=1e-14, atol=0)
    assert np.allclose(whole.limit, part.limit, rtol=1e-12, atol=0)
    assert np.array_equal(whole.by_twin, part.by_twin)
    twin, of_part = launched.twin(step), launched.twin(thin.step)
    assert twin is not None
    assert of_part is not None
    assert np.array_equal(twin, thin.spread(of_part))
    assert np.count_nonzero(part.want) == part.want.size // 40


def test_zero_rows_anywhere_keep_their_places() -> None:
    judged, launched, step = step_of("matvec", "block", "Q4_0", "ordinary", 9)
    step.arrays["weights"][[0, 3, 4, 8]] = 0
    thin = thinned(judged, step, from_bytes=0)
    assert len(thin.step.arrays["weights"]) == 6
    assert np.array_equal(judged.truth(launched, step).want == 0, np.isin(np.arange(9), [0, 3, 4, 8]))
    assert np.array_equal(thin.spread(thin.step.arrays["weights"].T).T, step.arrays["weights"])


@pytest.mark.parametrize(("family", "from_bytes"), [("ordinary", 0), ("last_row", 1 << 20)])
def test_short_and_dense_matrices_stay_whole(family: str, from_bytes: int) -> None:
    judged, _, step = step_of("matvec", "block", "Q4_0", family, 9)
    assert thinned(judged, step, from_bytes) == Thinned(step, None)


def test_an_op_whose_outputs_mix_rows_is_never_thinned() -> None:
    class Mixing(type(registry.op("matvec"))):
        row_wise = False

    _, _, step = step_of("matvec", "block", "Q4_0", "last_row", 9)
    assert thinned(Mixing(), step, from_bytes=0).row is None
