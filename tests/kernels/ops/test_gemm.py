"""gemm/library: a call without grid and text, on the default build alone, held to a bound for any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import catalog, compare, oracle, registry, source
from kernels.catalog import Selection
from kernels.errors import UsageError
from kernels.model import Build, Layout

KERNEL = "gemm/library"


def case(make: Any, shape: str, family: str = "ordinary", **fields: object) -> Any:
    return make(KERNEL, "F16", shape, family, x_dtype="f16", build=Build.DEFAULT, **fields)


def test_plan_is_one_call_over_float16_buffers(make: Any) -> None:
    plan = registry.kernel(KERNEL).plan(case(make, "5x64x3", layout=Layout(row_padding=6)))
    (call,) = plan.launches
    assert (call.library, call.entry, call.grid, call.block) == (True, "gemm", (0, 0, 0), (0, 0, 0))
    assert {b.name: (b.dtype, b.shape, b.strides) for b in plan.buffers} == {
        "weights": ("u1", (5, 128), (134, 1)),
        "x": ("f2", (3, 64), (128, 2)),
        "out": ("f4", (3, 5), (20, 4)),
    }
    assert call.scalars == {"rows": 5, "cols": 64, "batch": 3, "row_bytes": 134}


def test_it_serves_f16_in_the_default_build_alone() -> None:
    cells = [cell for cell in catalog.cells() if cell.op == "gemm"]
    assert [(cell.kind, cell.build) for cell in cells] == [("F16", Build.DEFAULT)]
    named = (Build.EXACT, Build.CHECK)
    assert not [cell for cell in catalog.cells(named) if cell.op == "gemm"]
    assert catalog.expand(Selection(ops=("gemm",), builds=named)) == ()


def test_a_case_of_another_build_is_no_case_of_the_catalog(make: Any) -> None:
    with pytest.raises(UsageError, match=r"gemm/library has no build 'exact', it has default; name that"):
        catalog.check(make(KERNEL, "F16", "5x64x3", x_dtype="f16"))


def test_it_has_no_text_and_a_digest_all_the_same() -> None:
    assert registry.kernel(KERNEL).parts(("F16",)) == ()
    assert len(source.digest(KERNEL, ("F16",), Build.DEFAULT)) == 64


def test_twin_adds_column_after_column(make: Any, ran: Any) -> None:
    done = ran(case(make, "3x96x2"))
    (step,), (out,) = done.steps, done.outs
    w, x = step.kind.weights(step.arrays["weights"]), step.arrays["x"]
    assert (w.dtype, x.dtype) == (np.float32, np.float32)
    for token, row in np.ndindex(2, 3):
        total = np.float32(0)
        for column in range(96):
            total += w[row, column] * x[token, column]
        assert out[token, row] == total


def test_activations_are_what_float16_holds(make: Any, ran: Any) -> None:
    x = ran(case(make, "3x96x2")).steps[0].arrays["x"]
    assert np.array_equal(x.astype(np.float16).astype(np.float32), x)
    assert len(np.unique(x)) > 100


@pytest.mark.parametrize("family", ["ordinary", "cancelling", "specials"])
def test_any_order_of_additions_is_inside_the_limit(make: Any, ran: Any, family: str) -> None:
    """Backwards, in pairs, and in float64: three orders that a library might take."""
    done = ran(case(make, "9x864x7", family))
    (step,) = done.steps
    op: Any = registry.op("gemm")
    kernel = registry.launch_kernel(KERNEL)
    truth, twin = op.truth(kernel, step), kernel.twin(step)
    w, x = step.kind.weights(step.arrays["weights"]), step.arrays["x"]
    with np.errstate(all="ignore"):
        products = x[:, None, :] * w[None, :, :]
        backwards = np.add.accumulate(products[..., ::-1], axis=-1)[..., -1]
        pairs = products.sum(axis=-1)
    exact = oracle.dot(w.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    for out in (backwards, pairs, exact):
        place = compare.Place(0, KERNEL, "out", family)
        found = compare.compare(out, twin, truth, place, 0x7FC0DEAD)
        assert (found.bad, found.positions) == (0, 63)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("0x64x1", "empty: got rows 0, cols 64, batch 1; want each at least 1"),
        ("5x64x0", "empty: got rows 5, cols 64, batch 0"),
        ("5x48x1", "cols 48 is not a multiple of the K-tile 32; pad to 64"),
        ("2147483648x64x1", "size 2147483648 is past int32's 2147483647"),
    ],
)
def test_refuses_by_name(make: Any, refused: Any, shape: str, reason: str) -> None:
    assert refused(case(make, shape)).startswith(reason)


def test_refuses_other_types_and_a_misaligned_x(make: Any, refused: Any) -> None:
    assert refused(make(KERNEL, "F16", "5x64x3", x_dtype="f32")) == "x dtype: got f32, want f16"
    misaligned = case(make, "5x64x3", layout=Layout(x_offset=1))
    assert refused(misaligned) == "x offset 1 is not a multiple of float16's 2 bytes"
