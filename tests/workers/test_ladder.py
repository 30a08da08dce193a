"""A rung of the ladder that is handed another layout: wrong on random weights, right on zeros alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import catalog, inputs, judge, registry
from kernels.evidence import Comparison
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Plan, Seeded
from kernels.op import Workload
from tests.workers.cases import request_for
from workers.backend import POISONS, Unavailable
from workers.backends.host import Host
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.runner import run_case


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        found = Host()
        try:
            found.devices()
        except Unavailable as why:
            pytest.skip(str(why))
        yield found


def case_of(name: str, shape: str = "9x160") -> Case:
    kernel, op = registry.kernel(f"matvec/{name}"), registry.op("matvec")
    workload = Workload(catalog.parse_shape(shape, op))
    return catalog.case_of(kernel, ("Q4_0",), workload, Seeded("ordinary", 1, FIXTURE_VERSION), Build.EXACT)


def packed_as(plan: Plan, layout: str) -> Plan:
    """The plan with its matrix in another layout of the same parts."""
    buffers = tuple(
        replace(buffer, packing=replace(buffer.packing, layout=layout)) if buffer.packing else buffer
        for buffer in plan.buffers
    )
    return replace(plan, buffers=buffers)


def ran(host: Host, name: str, layout: str, zeros: bool) -> Comparison:
    case = case_of(name)
    plan = packed_as(registry.kernel(f"matvec/{name}").plan(case), layout)
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    if zeros:
        images["weights.quants"] = np.zeros_like(images["weights.quants"])
    found = host.run(plan, images, host.devices()[0], 0)
    return judge.judge(case, plan, found.images, POISONS[0]).comparison


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("ladder_v4", "q4_interleaved_f16", "q4_linear_f16"),
        ("ladder_v5", "q4_linear_f16", "q4_interleaved_f16"),
    ],
)
def test_another_layout_is_seen_on_random_weights_and_not_on_zeros(
    host: Host, name: str, own: str, other: str
) -> None:
    verdicts = {
        (layout, zeros): ran(host, name, layout, zeros) for layout in (own, other) for zeros in (False, True)
    }
    assert verdicts[own, False].verdict == "PASS"
    assert (verdicts[other, False].verdict, verdicts[other, False].bad) == ("FAIL", 9)
    assert verdicts[own, True].verdict == verdicts[other, True].verdict == "PASS"


@pytest.mark.parametrize("name", ["ladder_v1", "ladder_v4"])
def test_ggmls_nibbles_are_seen_too(host: Host, name: str) -> None:
    """The quants as GGML has them in place of the layout's: same bytes, another order."""
    case = case_of(name)
    plan = registry.kernel(f"matvec/{name}").plan(case)
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    kind = registry.kind("Q4_0")
    step = judge.step_of(plan.launches[0], plan, {**images, "out": np.zeros(36, np.uint8)}, "ordinary")
    ggml = np.ascontiguousarray(step.arrays["weights"]).view(kind.block)["qs"]
    given = {**images, "weights.quants": ggml.reshape(-1).copy()}
    found = host.run(plan, given, host.devices()[0], 0).images
    comparison = judge.judge(case, plan, {**found, "weights.quants": images["weights.quants"]}, POISONS[0])
    assert comparison.comparison.verdict == "FAIL"


def test_evidence_has_the_layout_and_what_the_host_stood_in_for(host: Host) -> None:
    evidence = run_case(request_for(case_of("ladder_v5"), "host"), host, ImageCache(FileStore()))
    assert (evidence.verdict, evidence.case.packing) == ("PASS", "q4_linear_f16")
    assert evidence.substitutes == ("halves_fma", "halves_sub")
