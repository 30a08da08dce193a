"""What a plan says of its outputs: given and written, filled before a run, judged as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import inputs, judge, registry
from kernels.catalog import case_of
from kernels.evidence import Verdict
from kernels.model import BufferArg, Build, Launch, Plan, Role, ScalarArg, Seeded, Shape, packed
from kernels.op import Workload
from workers.backend import POISONS, backend
from workers.backends.host import Host

N = 300
KERNEL = registry.kernel("silu_mul/flat")
CASE = case_of(KERNEL, (), Workload(Shape.of(n=N)), Seeded("ordinary", 0, 1), Build.EXACT)
IN_PLACE = """
extern "C" __global__ void in_place(const float *gate, float *up, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) up[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
"""
ADDS = """
extern "C" __global__ void adds(float *out, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] += 2.0f;
}
"""


def in_place(build: Build = Build.EXACT) -> Plan:
    """silu_mul whose output takes the place of `up`."""
    buffers = packed("gate", (N,), Role.IN), packed("up", (N,), Role.INOUT)
    pointers = BufferArg("gate", "gate"), BufferArg("up", "up")
    launch = Launch(KERNEL.id, "", "in_place", (*pointers, ScalarArg("n", "i4", N)), (2, 1, 1), (256, 1, 1))
    judged = replace(launch, entry="", args=(*pointers, BufferArg("out", "up")))
    return Plan(buffers, (launch,), build, judged_as=(judged,))


def given(plan: Plan) -> dict[str, np.ndarray]:
    return inputs.images(CASE, plan, registry.op("silu_mul").operands(CASE))


@pytest.mark.parametrize("order", [0, 1])
def test_an_inout_buffer_is_judged_by_what_it_held_before(order):
    plan = in_place()
    images = given(plan)
    host = Host(lambda kernel, kind: IN_PLACE)
    run = host.run(plan, images, host.devices()[0], order)
    found = judge.judge(CASE, plan, run.images, POISONS[0], given=images).comparison
    assert (found.verdict, found.positions, found.bit_exact) == (Verdict.PASS, N, True)
    again = judge.judge(CASE, plan, run.images, POISONS[0], given=run.images).comparison
    assert again.verdict is Verdict.FAIL  # read as it is after the run it would be another input


def test_a_wrong_value_in_an_inout_buffer_fails():
    plan = in_place()
    images = given(plan)
    host = Host(lambda kernel, kind: IN_PLACE.replace("1.0f +", "1.5f +"))
    run = host.run(plan, images, host.devices()[0], 0)
    assert judge.judge(CASE, plan, run.images, POISONS[0], given=images).comparison.bad > N // 2


def test_the_twin_backend_fills_an_inout_buffer():
    plan = in_place()
    images = given(plan)
    run = backend("twin").run(plan, images, backend("twin").devices()[0], 0)
    found = judge.judge(CASE, plan, run.images, POISONS[0], given=images).comparison
    assert (found.verdict, found.positions) == (Verdict.PASS, N)


@pytest.mark.parametrize(("fill", "want"), [(0.0, 2.0), (1.5, 3.5)])
def test_a_filled_buffer_may_be_added_to(fill, want):
    plan = adding(fill, Build.EXACT)
    host = Host(lambda kernel, kind: ADDS)
    run = host.run(plan, {}, host.devices()[0], 0)
    assert plan.buffer("out").view(run.images["out"]).tolist() == [want] * 40


@pytest.mark.parametrize(("fill", "findings"), [(0.0, 0), (None, 1)])
def test_the_check_build_knows_what_was_filled(fill, findings):
    host = Host(lambda kernel, kind: ADDS)
    run = host.run(adding(fill, Build.CHECK), {}, host.devices()[0], 0)
    assert len(run.findings) == findings
    assert all("nobody has written" in line for line in run.findings)


def adding(fill: float | None, build: Build) -> Plan:
    out = replace(packed("out", (40,), Role.OUT), fill=fill)
    args = BufferArg("out", "out"), ScalarArg("n", "i4", 40)
    return Plan((out,), (Launch("silu_mul/flat", "", "adds", args, (1, 1, 1), (64, 1, 1)),), build)
