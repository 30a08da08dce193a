"""The ffn kernels: one plan of four launches, each judged against what it really read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import registry, source
from kernels.model import Layout, Role

KERNELS = ["ffn/block", "ffn/coalesced"]
MIX = "Q4_K+Q4_K+Q6_K"


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_plan_is_gate_up_silu_mul_down(make: Any, kernel_id: str) -> None:
    plan = registry.kernel(kernel_id).plan(make(kernel_id, MIX, "512x768"))
    matvec = kernel_id.replace("ffn", "matvec")
    assert [(launch.kernel, launch.kind) for launch in plan.launches] == [
        (matvec, "Q4_K"), (matvec, "Q4_K"), ("silu_mul/flat", ""), (matvec, "Q6_K"),
    ]  # fmt: skip
    rows = 768 if matvec.endswith("block") else 96
    down = 512 if matvec.endswith("block") else 64
    assert [launch.grid[0] for launch in plan.launches] == [rows, rows, 3, down]


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_launches_are_chained_through_scratch(make: Any, kernel_id: str) -> None:
    gate, up, silu_mul, down = registry.kernel(kernel_id).plan(make(kernel_id, "Q4_0", "64x96")).launches
    assert (gate.buffers["weights"], up.buffers["weights"], down.buffers["weights"]) == ("gate", "up", "down")
    assert gate.buffers["x"] == up.buffers["x"] == "x"
    assert (silu_mul.buffers["gate"], silu_mul.buffers["up"]) == (gate.buffers["out"], up.buffers["out"])
    assert (down.buffers["x"], down.buffers["out"]) == (silu_mul.buffers["out"], "out")
    assert [launch.scalars.get("rows") for launch in (gate, up, down)] == [96, 96, 64]
    assert [launch.scalars.get("cols") for launch in (gate, up, down)] == [64, 64, 96]


def test_plan_uploads_x_once_and_downloads_one_result(make: Any) -> None:
    plan = registry.kernel("ffn/block").plan(make("ffn/block", "Q4_0", "64x96"))
    roles = {role: {b.name for b in plan.buffers if b.role is role} for role in Role}
    assert roles[Role.IN] == {"gate", "up", "down", "x"}
    assert roles[Role.OUT] == {"out"}
    assert len(roles[Role.SCRATCH]) == 3


@pytest.mark.parametrize("kind", [*registry.kinds(), MIX])
@pytest.mark.parametrize("kernel_id", KERNELS)
@pytest.mark.parametrize("family", ["ordinary", "onehot", "specials"])
def test_every_launch_passes_on_its_actual_input(
    make: Any, ran: Any, kernel_id: str, kind: str, family: str
) -> None:
    done = ran(make(kernel_id, kind, "256x512", family))
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 3 * 512 + 256)
    assert [step.given for step in done.steps] == [True, True, False, False]


def test_outs_are_the_swiglu_of_the_decoded_matrices(make: Any, ran: Any) -> None:
    done = ran(make("ffn/block", MIX, "256x512"))
    gate, up, down = (
        step.kind.weights(step.arrays["weights"]).astype(np.float64) for step in done.steps if step.kind
    )
    x = done.steps[0].arrays["x"].astype(np.float64)
    g = gate @ x
    want = down @ (g / (1 + np.exp(-np.maximum(g, -700))) * (up @ x))
    assert np.abs(done.outs[3] - want).max() < 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_parts_are_the_texts_that_the_plan_launches(make: Any, kernel_id: str) -> None:
    kernel, case = registry.kernel(kernel_id), make(kernel_id, MIX, "256x512")
    launched = [(launch.kernel, launch.kind) for launch in kernel.plan(case).launches]
    assert list(kernel.parts(case.kinds)) == launched
    assert all(source.text(*part) for part in launched)


@pytest.mark.parametrize(
    ("kind", "shape", "reason"),
    [
        ("Q4_K", "0x256", "gate: empty"),
        ("Q4_0", "48x64", "gate: cols 48 is not a multiple of the K-tile"),
        ("Q4_0", "64x48", "down: cols 48 is not a multiple of the K-tile"),
        ("Q4_0+Q4_0+Q6_K", "64x96", "down: cols 96 is not a whole number of Q6_K's 256-weight blocks"),
        ("Q4_0+Q4_K+Q6_K", "64x256", "up: cols 64 is not a whole number of Q4_K's 256-weight blocks"),
    ],
)
@pytest.mark.parametrize("kernel_id", KERNELS)
def test_refusals_name_the_matrix(
    make: Any, refused: Any, kernel_id: str, kind: str, shape: str, reason: str
) -> None:
    assert refused(make(kernel_id, kind, shape)).startswith(reason)


def test_coalesced_refuses_what_its_lanes_cannot_load(make: Any, refused: Any) -> None:
    aligned = [kind for kind in registry.kinds().values() if kind.lane_align > 1]
    for kind in aligned:
        shape = f"{kind.elements}x{kind.elements}"
        said = refused(make("ffn/coalesced", kind.name, shape, layout=Layout(weights_offset=1)))
        assert said.startswith("gate: weights offset: got 1 bytes")
        assert not refused(make("ffn/block", kind.name, shape, layout=Layout(weights_offset=1)))
    assert aligned  # some kind has wide loads, or this checks nothing
