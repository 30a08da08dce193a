"""The mul_mat_id kernels: every slot takes the expert of its id, and the x of its token or its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import compare, inputs, judge, oracle, registry, source
from kernels.kind import Kind
from kernels.model import Layout, Role
from kernels.op import JudgedOp
from tests.kernels.ops.test_matvec import block_by_hand, coalesced_by_hand

KERNELS = ["mul_mat_id/block", "mul_mat_id/coalesced"]
BY_HAND = {"mul_mat_id/block": block_by_hand, "mul_mat_id/coalesced": coalesced_by_hand}
INT32_MAX = 2**31 - 1


def op() -> JudgedOp:
    found = registry.op("mul_mat_id")
    assert isinstance(found, JudgedOp)
    return found


@pytest.mark.parametrize(
    ("kernel_id", "shape", "grid", "shared"),
    [
        ("mul_mat_id/block", "3x256x4x2x5", 30, 1024),
        ("mul_mat_id/coalesced", "3x256x4x2x5", 4, 0),
        ("mul_mat_id/block", "70000x256x2x1x1", 70000, 1024),
        ("mul_mat_id/coalesced", "8x256x1x1x1", 1, 0),
        ("mul_mat_id/coalesced", "9x256x1x1x1", 2, 0),
        ("mul_mat_id/block", "1x256x2x1x70000", 70000, 1024),
    ],
)
def test_grid_is_all_outputs_on_one_axis(
    make: Any, kernel_id: str, shape: str, grid: int, shared: int
) -> None:
    (launch,) = registry.kernel(kernel_id).plan(make(kernel_id, "Q4_K", shape)).launches
    assert (launch.grid, launch.block) == ((grid, 1, 1), (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (0, shared)


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize(("x_rows", "shared_by"), [(1, 3), (3, 1)])
def test_plan_has_typed_ids_and_all_experts(make: Any, kernel_id: str, x_rows: int, shared_by: int) -> None:
    plan = registry.kernel(kernel_id).plan(make(kernel_id, "Q8_0", f"5x64x7x3x2x{x_rows}"))
    shapes = {b.name: (b.dtype, b.shape, b.role) for b in plan.buffers}
    assert shapes == {
        "weights": ("u1", (35, 68), Role.IN),
        "x": ("f4", (2, x_rows, 64), Role.IN),
        "ids": ("i4", (2, 3), Role.IN),
        "out": ("f4", (2, 3, 5), Role.OUT),
    }
    scalars = plan.launches[0].scalars
    assert (scalars["slots_per_x"], scalars["row_bytes"], scalars["expert_bytes"]) == (shared_by, 68, 340)


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize("kind", list(registry.kinds()))
def test_text_defines_the_entry_that_the_plan_launches(make: Any, kernel_id: str, kind: str) -> None:
    (launch,) = registry.kernel(kernel_id).plan(make(kernel_id, kind, "1x256x1x1x1")).launches
    assert f"#define ENTRY {launch.entry}\n" in source.text(launch.kernel, launch.kind)


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K"])
@pytest.mark.parametrize("x_rows", [1, 2])
def test_twin_is_the_expert_of_every_slot_summed_by_hand(
    make: Any, ran: Any, kernel_id: str, kind: str, x_rows: int
) -> None:
    rows, top_k, tokens = 3, 2, 3
    done = ran(make(kernel_id, kind, f"{rows}x512x5x{top_k}x{tokens}x{x_rows}"))
    (step,), (out,) = done.steps, done.outs
    weights, x, ids = (step.arrays[name] for name in ("weights", "x", "ids"))
    compared = 0
    for token in range(tokens):
        for slot in range(top_k):
            for row in range(rows):
                start = ids[token, slot] * rows + row
                (w,) = step.kind.weights(weights[start : start + 1])
                want = BY_HAND[kernel_id](step.kind, w, x[token, slot if x_rows > 1 else 0])
                assert out[token, slot, row] == want
                compared += 1
    assert compared == out.size == 18


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize("kind", registry.kinds().values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("family", ["ordinary", "sparse", "specials"])
def test_twin_is_inside_the_bound_of_the_gathered_oracle(
    make: Any, ran: Any, kernel_id: str, kind: Kind, family: str
) -> None:
    done = ran(make(kernel_id, kind.name, f"5x{3 * kind.elements}x6x2x4", family))
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 4 * 2 * 5)
    assert done.steps[0].given


def test_truth_is_the_oracle_of_the_flattened_experts_gathered(make: Any, ran: Any) -> None:
    done = ran(make("mul_mat_id/block", "Q6_K", "5x768x6x2x4"))
    (step,) = done.steps
    whole = oracle.weights(registry.kind("Q6_K"), step.arrays["weights"]).reshape(6, 5, 768)
    x = step.arrays["x"].astype(np.float64)
    truth = op().truth(registry.launch_kernel("mul_mat_id/block"), step)
    for (token, slot), expert in np.ndenumerate(step.arrays["ids"]):
        np.testing.assert_allclose(truth.want[token, slot], whole[expert] @ x[token, 0], rtol=1e-12)


def with_ids(done: Any, ids: np.ndarray) -> Any:
    """The output of the twin on other ids, held against the truth of the right ones."""
    (step,) = done.steps
    kernel = registry.launch_kernel("mul_mat_id/block")
    other = judge.Step({**step.arrays, "ids": ids}, step.scalars, step.kind, step.family, step.given)
    place = compare.Place(0, kernel.id, "out", step.family)
    return compare.compare(kernel.twin(other), kernel.twin(step), op().truth(kernel, step), place, 0x7FC0DEAD)


def test_one_wrong_id_fails_the_rows_of_its_slot_alone(make: Any, ran: Any) -> None:
    done = ran(make("mul_mat_id/block", "Q4_K", "5x768x6x2x4"))
    ids = done.steps[0].arrays["ids"].copy()
    assert with_ids(done, ids).bad == 0
    ids[2, 1] = (ids[2, 1] + 1) % 6
    assert with_ids(done, ids).bad == 5


@pytest.mark.parametrize("x_rows", [1, 3])
def test_the_worst_block_is_one_of_the_experts_row(make: Any, ran: Any, x_rows: int) -> None:
    kind = registry.kind("Q8_0")
    case = make("mul_mat_id/block", "Q8_0", f"5x128x7x3x2x{x_rows}")
    (step,) = ran(case).steps
    x = np.zeros_like(step.arrays["x"])
    x[1, 2 % x_rows, 100] = 1  # block 3 has all of the sum
    told = judge.Step({**step.arrays, "x": x}, step.scalars, kind, step.family, step.given)
    row = step.arrays["weights"][step.arrays["ids"][1, 2] * 5 + 4]
    assert bytes.fromhex(judge.worst_block(op(), told, (1, 2, 4))) == row[3 * 34 : 4 * 34].tobytes()


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_reads_a_padded_pitch_and_offset_views(make: Any, ran: Any, kernel_id: str) -> None:
    layout = Layout(row_padding=64, weights_offset=16, x_offset=16, x_slack=7)
    apart, plain = (ran(make(kernel_id, "Q5_0", "5x96x4x2x3", layout=lay)) for lay in (layout, Layout()))
    assert apart.plan.launches[0].scalars["expert_bytes"] == 5 * (3 * 22 + 64)
    assert apart.outs[0].tobytes() == plain.outs[0].tobytes()


def test_quick_cases_have_what_breaks_a_gather() -> None:
    seen = []
    for workload in op().quick((registry.kind("Q4_0"),)):
        shape = workload.shape
        ids = inputs.words(7, shape["tokens"] * shape["top_k"]).reshape(shape["tokens"], -1)
        counts = np.bincount(inputs.routed(ids, shape["experts"]).reshape(-1), minlength=shape["experts"])
        seen.append((counts[-1] > 0, counts[0] > 0, counts.max() > 1, counts.min() == 0, shape["x_rows"] > 1))
    last, first, repeated, empty, own_x = zip(*seen, strict=True)
    assert all(last)
    assert all(first)
    assert sum(repeated) >= 3
    assert sum(empty) >= 3
    assert sum(own_x) >= 3


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("0x256x4x2x3", "empty: got rows 0, cols 256, experts 4, top_k 2, tokens 3, x_rows 1; want each at"),
        ("3x0x4x2x3", "empty: got rows 3, cols 0"),
        ("3x256x0x2x3", "empty: got rows 3, cols 256, experts 0"),
        ("3x256x4x0x3", "empty: got rows 3, cols 256, experts 4, top_k 0"),
        ("3x256x4x2x0", "empty: got rows 3, cols 256, experts 4, top_k 2, tokens 0"),
        ("3x48x4x2x3", "cols 48 is not a multiple of the K-tile 32; pad to 256"),
        ("3x1152x4x2x3", "cols 1152 is not a whole number of Q4_K's 256-weight blocks; pad to 1280"),
        (f"{INT32_MAX + 1}x256x4x2x3", "size 2147483648 is past int32's 2147483647"),
        (f"3x256x{INT32_MAX + 1}x2x3", "size 2147483648 is past int32's 2147483647"),
        ("3x256x4x5x3", "top_k: got 5, want at most the 4 experts"),
        ("3x256x4x3x3x2", "x_rows: got 2, want 1, a token's x for all its slots, or top_k 3, one a slot"),
        ("3x48x4x5x3x2", "cols 48"),
    ],
)
def test_refuses_by_name_in_order(make: Any, refused: Any, kernel_id: str, shape: str, reason: str) -> None:
    assert refused(make(kernel_id, "Q4_K", shape)).startswith(reason)


@pytest.mark.parametrize(("kernel_id", "a_block"), [("mul_mat_id/block", 1), ("mul_mat_id/coalesced", 8)])
def test_refuses_more_outputs_than_one_grid_axis_has(
    make: Any, refused: Any, kernel_id: str, a_block: int
) -> None:
    most = INT32_MAX * a_block
    rows, tokens = 65536, most // 65536
    assert refused(make(kernel_id, "Q4_0", f"{rows}x32x1x1x{tokens}")) == ""
    reason = refused(make(kernel_id, "Q4_0", f"{rows}x32x1x1x{tokens + 1}"))
    assert reason.startswith("grid.x 2147483648 for 65536 rows of ")
    assert reason.endswith("past CUDA's 2147483647; take fewer tokens")


def test_refuses_layout_and_types(make: Any, refused: Any) -> None:
    case = make("mul_mat_id/block", "Q4_0", "3x32x4x2x3", layout=Layout(x_offset=2))
    assert refused(case) == "x offset 2 is not a multiple of float32's 4 bytes"
    assert refused(make("mul_mat_id/block", "Q4_0", "3x32x4x2x3", x_dtype="f16")) == (
        "x dtype: got f16, want f32"
    )


@pytest.mark.parametrize("kind", registry.kinds().values(), ids=lambda kind: kind.name)
def test_coalesced_refuses_what_its_lanes_cannot_load(make: Any, refused: Any, kind: Kind) -> None:
    shape = f"2x{kind.elements}x2x1x1"
    said = refused(make("mul_mat_id/coalesced", kind.name, shape, layout=Layout(weights_offset=1)))
    assert bool(said) == (kind.lane_align > 1)
    assert not said or f"got 1 bytes, want a multiple of {kind.lane_align}" in said
