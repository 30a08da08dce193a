"""The multi_matvec kernels: one upload of x, three launches and outputs, each matrix of a kind of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import registry, source
from kernels.model import Layout, Role, Shape

KERNELS = ["multi_matvec/block", "multi_matvec/coalesced"]
MIX = "Q4_K+Q4_K+Q6_K"
OP = registry.op("multi_matvec")


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_plan_is_one_launch_a_matrix_over_one_x(make: Any, kernel_id: str) -> None:
    plan = registry.kernel(kernel_id).plan(make(kernel_id, MIX, "17x9x256"))
    matvec = kernel_id.removeprefix("multi_")
    assert [(launch.kernel, launch.kind) for launch in plan.launches] == [
        (matvec, "Q4_K"), (matvec, "Q4_K"), (matvec, "Q6_K"),
    ]  # fmt: skip
    assert [launch.buffers for launch in plan.launches] == [
        {"weights": name, "x": "x", "out": f"{name}_out"} for name in "qkv"
    ]
    assert [launch.scalars["rows"] for launch in plan.launches] == [17, 9, 9]
    assert [launch.grid[0] for launch in plan.launches] == (
        [17, 9, 9] if matvec.endswith("block") else [3, 2, 2]
    )


def test_plan_uploads_x_once_and_downloads_three_results(make: Any) -> None:
    plan = registry.kernel("multi_matvec/block").plan(make("multi_matvec/block", "Q4_0", "5x3x64"))
    roles = {role: {b.name: b.shape for b in plan.buffers if b.role is role} for role in Role}
    assert set(roles[Role.IN]) == {"q", "k", "v", "x"}
    assert roles[Role.OUT] == {"q_out": (5,), "k_out": (3,), "v_out": (3,)}
    assert not roles[Role.SCRATCH]


@pytest.mark.parametrize("kind", [*registry.kinds(), MIX])
@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize("family", ["ordinary", "onehot", "specials"])
def test_every_launch_passes_on_the_given_x(
    make: Any, ran: Any, kernel_id: str, kind: str, family: str
) -> None:
    done = ran(make(kernel_id, kind, "9x5x512", family))
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 9 + 5 + 5)
    assert all(step.given for step in done.steps)


def test_block_adds_elements_in_order_then_the_tree(make: Any, ran: Any) -> None:
    """Two blocks of Q8_0 a row: thread 0's sum plus thread 1's, each in the order of its 32 weights."""
    done = ran(make("multi_matvec/block", "Q8_0", "3x2x64"))
    x, compared = done.steps[0].arrays["x"], 0
    for step, out in zip(done.steps, done.outs, strict=True):
        assert step.arrays["x"] is x or np.array_equal(step.arrays["x"], x)
        for row, weights in enumerate(step.kind.weights(step.arrays["weights"])):
            sums = [np.float32(0), np.float32(0)]
            for i in range(64):
                sums[i // 32] += weights[i] * x[i]
            assert out[row] == sums[0] + sums[1]
            compared += 1
    assert compared == 3 + 2 + 2


def test_three_matrices_are_different_bytes(make: Any, ran: Any) -> None:
    done = ran(make("multi_matvec/block", "Q8_0", "3x3x64"))
    q, k, v = (step.arrays["weights"].tobytes() for step in done.steps)
    assert len({q, k, v}) == 3


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_parts_are_the_texts_that_the_plan_launches(make: Any, kernel_id: str) -> None:
    kernel, case = registry.kernel(kernel_id), make(kernel_id, MIX, "3x2x256")
    launched = [(launch.kernel, launch.kind) for launch in kernel.plan(case).launches]
    assert list(kernel.parts(case.kinds)) == launched
    assert all(source.text(*part) for part in launched)


@pytest.mark.parametrize(
    ("kind", "shape", "reason"),
    [
        ("Q4_K", "0x1x256", "q: empty: got rows 0, cols 256, batch 1"),
        ("Q4_K", "1x0x256", "k: empty: got rows 0, cols 256, batch 1"),
        ("Q4_0", "4x2x48", "q: cols 48 is not a multiple of the K-tile 32; pad to 64"),
        ("Q4_0+Q4_0+Q6_K", "4x2x96", "v: cols 96 is not a whole number of Q6_K's 256-weight blocks"),
        ("Q4_0+Q4_K+Q6_K", "4x2x64", "k: cols 64 is not a whole number of Q4_K's 256-weight blocks"),
        ("Q4_0", "2147483648x1x32", "q: size 2147483648 is past int32's 2147483647"),
    ],
)
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_refusals_name_the_matrix(
    make: Any, refused: Any, kernel_id: str, kind: str, shape: str, reason: str
) -> None:
    assert refused(make(kernel_id, kind, shape)).startswith(reason)


def test_refuses_other_types_and_a_misaligned_x(make: Any, refused: Any) -> None:
    case = make("multi_matvec/block", "Q4_0", "4x2x64", layout=Layout(x_offset=2))
    assert refused(case) == "q: x offset 2 is not a multiple of float32's 4 bytes"
    assert refused(make("multi_matvec/block", "Q4_0", "4x2x64", x_dtype="f16")).startswith("x dtype: got f16")


def test_coalesced_refuses_what_its_lanes_cannot_load(make: Any, refused: Any) -> None:
    aligned = [kind for kind in registry.kinds().values() if kind.lane_align > 1]
    for kind in aligned:
        shape = f"2x1x{kind.elements}"
        said = refused(make("multi_matvec/coalesced", kind.name, shape, layout=Layout(weights_offset=1)))
        assert said.startswith("q: weights offset: got 1 bytes")
        assert not refused(make("multi_matvec/block", kind.name, shape, layout=Layout(weights_offset=1)))
    assert aligned  # some kind has wide loads, or this checks nothing


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        (((8, 64), (4, 64), (4, 64)), Shape.of(q_rows=8, kv_rows=4, cols=64)),
        (((8, 64), (4, 64), (5, 64)), None),
        (((8, 64), (4, 96), (4, 96)), None),
    ],
)
def test_shape_of_three_matrices(sizes: Any, shape: Shape | None) -> None:
    assert OP.shape_of(sizes) == shape
