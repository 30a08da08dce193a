"""Every matvec kernel for every kind: geometry, order of additions, bound, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import compare, oracle, registry, source
from kernels.kind import Kind
from kernels.model import Layout
from kernels.op import LaunchKernel, Step

KINDS = list(registry.kinds())
MATVECS = [kernel for kernel in registry.all_kernels().values() if kernel.op == "matvec"]
FLOATS = [kernel for kernel in MATVECS if not kernel.float_x]  # whose one launch reads x as it is given
CELLS = [(kernel.id, kind) for kernel in FLOATS for kind in KINDS if kernel.serves((kind,))]
KERNELS = [kernel.id for kernel in MATVECS if all(kernel.serves((kind,)) for kind in KINDS)]  # of every kind


def cols(kind: str, blocks: int) -> int:
    return blocks * registry.kind(kind).elements


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 65537])
def test_block_launches_a_thread_block_per_row(make: Any, rows: int) -> None:
    plan = registry.kernel("matvec/block").plan(make("matvec/block", "Q4_K", f"{rows}x256"))
    (launch,) = plan.launches
    assert (launch.grid, launch.block) == ((rows, 1, 1), (256, 1, 1))
    assert (launch.dynamic_shared_bytes, launch.static_shared_bytes) == (4 * 256, 0)


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (7, 1), (8, 1), (9, 2), (65537, 8193)])
def test_coalesced_launches_as_many_warps_as_the_tail_needs(make: Any, rows: int, blocks: int) -> None:
    plan = registry.kernel("matvec/coalesced").plan(make("matvec/coalesced", "Q4_K", f"{rows}x256"))
    (launch,) = plan.launches
    assert (launch.grid, launch.block) == ((blocks, 1, 1), (256, 1, 1))
    assert (launch.dynamic_shared_bytes, launch.static_shared_bytes) == (0, 0)


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_plan_passes_pitch_and_views(make: Any, kernel_id: str) -> None:
    layout = Layout(row_padding=12, weights_offset=16, x_offset=8)
    plan = registry.kernel(kernel_id).plan(make(kernel_id, "Q8_0", "3x64", layout=layout))
    (launch,) = plan.launches
    assert launch.scalars.items() >= {"rows": 3, "cols": 64, "row_bytes": 80}.items()
    assert launch.buffers == {"weights": "weights", "x": "x", "out": "out"}
    assert (plan.buffer("weights").offset, plan.buffer("x").offset, plan.buffer("out").shape) == (16, 8, (3,))


@pytest.mark.parametrize(("kernel_id", "kind"), CELLS)
def test_text_defines_the_entry_that_the_plan_launches(make: Any, kernel_id: str, kind: str) -> None:
    (launch,) = registry.kernel(kernel_id).plan(make(kernel_id, kind, f"1x{cols(kind, 1)}")).launches
    assert launch.entry == f"{kernel_id.replace('/', '_')}_{kind.lower()}"
    text = source.text(launch.kernel, launch.kind)
    assert f"#define ENTRY {launch.entry}\n" in text
    assert 'extern "C" __global__ void ENTRY(' in text
    assert "#include" not in text


# A kernel with a limit of its own sums in fewer bits than float32; its own tests hold it to that.
IN_FLOAT32 = [cell for cell in CELLS if type(registry.launch_kernel(cell[0])).held_to is LaunchKernel.held_to]


@pytest.mark.parametrize(("kernel_id", "kind"), IN_FLOAT32)
@pytest.mark.parametrize("family", ["ordinary", "cancelling"])
def test_twin_is_inside_the_proven_bound(make: Any, ran: Any, kernel_id: str, kind: str, family: str) -> None:
    done = ran(make(kernel_id, kind, f"5x{cols(kind, 259)}", family))
    (step,), (out,) = done.steps, done.outs
    weights = oracle.weights(registry.kind(kind), step.arrays["weights"]) * (step.tensor_scale or 1)
    error = np.abs(out - weights @ step.arrays["x"].astype(np.float64))
    scale = np.abs(weights) @ np.abs(step.arrays["x"].astype(np.float64))
    chain = registry.launch_kernel(kernel_id).chain(step)
    assert (error <= compare.gamma(chain + 4 + registry.kind(kind).tensor_scale) * scale).all()
    assert error.max() > 0  # float32 does round: an exact answer would be the oracle's own
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 5)


@pytest.mark.parametrize(("kind", "blocks", "want"), [("Q8_0", 1, 40), ("Q8_0", 257, 72), ("Q4_K", 512, 520)])
def test_block_chain_counts_turns_and_tree(make: Any, ran: Any, kind: str, blocks: int, want: int) -> None:
    done = ran(make("matvec/block", kind, f"1x{cols(kind, blocks)}"))
    assert registry.launch_kernel("matvec/block").chain(done.steps[0]) == want


@pytest.mark.parametrize(("kind", "blocks", "want"), [("Q8_0", 3, 8), ("Q4_K", 3, 29), ("Q6_K", 1, 13)])
def test_coalesced_chain_counts_lane_weights_and_shuffles(
    make: Any, ran: Any, kind: str, blocks: int, want: int
) -> None:
    done = ran(make("matvec/coalesced", kind, f"1x{cols(kind, blocks)}"))
    assert registry.launch_kernel("matvec/coalesced").chain(done.steps[0]) == want


def block_by_hand(kind: Kind, w: np.ndarray, x: np.ndarray) -> np.float32:
    """What the text of matvec/block says, thread by thread."""
    sums = [np.float32(0)] * 256
    for thread in range(256):
        for block in range(thread, len(w) // kind.elements, 256):
            for i in range(block * kind.elements, (block + 1) * kind.elements):
                sums[thread] += w[i] * x[i]
    half = 128
    while half:
        for thread in range(half):
            sums[thread] += sums[thread + half]
        half //= 2
    return sums[0]


def coalesced_by_hand(kind: Kind, w: np.ndarray, x: np.ndarray) -> np.float32:
    """What the text of matvec/coalesced says, lane by lane."""
    lanes, sums = kind.lanes, [np.float32(0)] * 32
    for lane in range(32):
        at = lane * lanes.width
        first = at // lanes.stride * lanes.stride * lanes.runs + at % lanes.stride
        for block in range(0, len(w), kind.elements):
            for run in range(lanes.runs):
                for i in range(lanes.width):
                    element = block + first + run * lanes.stride + i
                    sums[lane] += w[element] * x[element]
    for step in (16, 8, 4, 2, 1):
        sums = [sums[lane] + sums[lane + step if lane + step < 32 else lane] for lane in range(32)]
    return sums[0]


BY_HAND = {"matvec/block": block_by_hand, "matvec/coalesced": coalesced_by_hand}


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("kernel_id", BY_HAND)
def test_twin_adds_in_the_order_of_the_text(make: Any, ran: Any, kernel_id: str, kind: str) -> None:
    done = ran(make(kernel_id, kind, f"2x{cols(kind, 3)}"))
    (step,), (out,) = done.steps, done.outs
    assert step.kind is not None
    w = step.kind.weights(step.arrays["weights"])
    want = [BY_HAND[kernel_id](step.kind, row, step.arrays["x"]) for row in w]
    assert out.tolist() == [float(value) for value in want]


def test_block_twin_takes_a_second_turn_when_there_are_more_than_256_blocks(make: Any, ran: Any) -> None:
    done = ran(make("matvec/block", "Q4_0", f"1x{257 * 32}"))
    (step,), (out,) = done.steps, done.outs
    assert step.kind is not None
    (w,) = step.kind.weights(step.arrays["weights"])
    assert out.tolist() == [float(block_by_hand(step.kind, w, step.arrays["x"]))]


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_twin_reads_a_padded_pitch_and_an_offset_view(make: Any, ran: Any, kernel_id: str) -> None:
    plain = ran(make(kernel_id, "Q5_0", "7x96"))
    layout = Layout(row_padding=64, weights_offset=16, x_offset=16, x_slack=5)
    apart = ran(make(kernel_id, "Q5_0", "7x96", layout=layout))
    assert apart.outs[0].tobytes() == plain.outs[0].tobytes()


@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("0x64", "empty"),
        ("4x48", "K-tile"),
        ("4x1152", "whole number of Q4_K's 256-weight blocks; pad to 1280"),
    ],
)
def test_refuses_shapes(make: Any, refused: Any, kernel_id: str, shape: str, reason: str) -> None:
    assert reason in refused(make(kernel_id, "Q4_K", shape))


def test_refuses_another_dtype(make: Any, refused: Any) -> None:
    assert refused(make("matvec/block", "Q4_K", "4x256", x_dtype="f16")) == "x dtype: got f16, want f32"


@pytest.mark.parametrize("kind", registry.kinds().values(), ids=lambda kind: kind.name)
def test_coalesced_refuses_what_its_lanes_cannot_load(make: Any, refused: Any, kind: Kind) -> None:
    said = refused(make("matvec/coalesced", kind.name, f"2x{kind.elements}", layout=Layout(weights_offset=1)))
    assert bool(said) == (kind.lane_align > 1)
    assert not said or f"got 1 bytes, want a multiple of {kind.lane_align}" in said


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_specials_reach_only_the_rows_that_hold_them(make: Any, ran: Any, kernel_id: str) -> None:
    done = ran(make(kernel_id, "Q8_0", "9x160", "specials"))
    assert np.isfinite(done.outs[0]).any()
    assert not np.isfinite(done.outs[0]).all()
    assert done.comparison.verdict == "PASS"


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_a_dropped_last_element_fails(make: Any, ran: Any, kernel_id: str) -> None:
    done = ran(make(kernel_id, "Q4_K", "4x28672"))
    kernel = registry.launch_kernel(kernel_id)
    (step,) = done.steps
    dropped = step.arrays["x"].copy()
    dropped[-1] = 0
    wrong = kernel.twin(Step({**step.arrays, "x": dropped}, step.scalars, step.kind, step.family, step.given))
    assert fails(kernel, step, wrong) == 4


def fails(kernel: LaunchKernel, step: Step, out: np.ndarray) -> int:
    """Elements of `out` outside the truth of a step."""
    op: Any = registry.op(kernel.op)
    place = compare.Place(0, kernel.id, "out", step.family)
    return compare.compare(out, kernel.twin(step), op.truth(kernel, step), place, 0x7FC0DEAD).bad
