"""With contraction off, the CUDA text executed on the CPU gives its twin's bits: every kernel, every kind."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog, compare, inputs, judge, registry
from kernels.catalog import CellName, Selection
from kernels.evidence import Verdict
from kernels.model import Build, Case, Layout, Plan
from workers import backend
from workers.backend import POISONS, Backend, Run, Unavailable

FAMILIES = ("ordinary", "specials")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """The host backend with a compile cache of its own."""
    found = backend.backend("host")
    try:
        found.devices()
    except Unavailable as why:
        pytest.skip(str(why))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield found


def by_cell(build: Build) -> dict[CellName, list[Case]]:
    """The quick tier's cases by cell, one of every shape and layout and family."""
    cases: dict[CellName, list[Case]] = defaultdict(list)
    for one in catalog.expand(Selection(families=FAMILIES, builds=(build,))):
        cases[CellName(one.case.op, one.case.kernel, one.case.kind, build)].append(one.case)
    return cases


EXACT, DEFAULT = by_cell(Build.EXACT), by_cell(Build.DEFAULT)


def run(host: Backend, case: Case, turn: int) -> tuple[Plan, Run]:
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    return plan, host.run(plan, images, host.devices()[0], turn)


def differing(plan: Plan, ran: Run) -> int:
    """Output elements, of every launch, whose bits aren't the twin's on the same operands."""
    count = 0
    for launch in plan.launches:
        step = judge.step_of(launch, plan, ran.images, "ordinary")
        twin = registry.launch_kernel(launch.kernel).twin(step)
        got = plan.arrays(launch, ran.images)["out"]
        count += int((compare.bits(compare.canonical(got)) != compare.bits(compare.canonical(twin))).sum())
    return count


@pytest.mark.parametrize("cell", EXACT, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_host_gives_the_twins_bits_when_contraction_is_off(host: Backend, cell: CellName) -> None:
    assert len(EXACT[cell]) >= (6 if registry.kernel(f"{cell.op}/{cell.kernel}").narrow else 10)
    for turn, case in enumerate(EXACT[cell]):
        plan, ran = run(host, case, turn)
        assert (differing(plan, ran), ran.guards) == (0, ()), f"{case.shape} {case.family} {case.layout}"


@pytest.mark.parametrize("cell", EXACT, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_launches_are_as_planned(host: Backend, cell: CellName) -> None:
    plan, ran = run(host, EXACT[cell][0], 0)
    for launch, record in zip(plan.launches, ran.launches, strict=True):
        assert (record.kernel, record.entry) == (launch.kernel, launch.entry)
        assert (record.grid, record.block) == (launch.grid, launch.block)
        assert record.static_shared_bytes == launch.static_shared_bytes
        assert record.dynamic_shared_bytes == launch.dynamic_shared_bytes


@pytest.mark.parametrize("cell", DEFAULT, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_host_passes_when_contraction_is_on(host: Backend, cell: CellName) -> None:
    for case in DEFAULT[cell][:3]:
        plan, ran = run(host, case, 0)
        comparison = judge.judge(case, plan, ran.images, POISONS[0]).comparison
        assert comparison.verdict is Verdict.PASS
        assert not comparison.reason or comparison.twinless  # what only a twin could judge is told


@pytest.mark.parametrize("offset", [1, 2, 4, 16])
@pytest.mark.parametrize("kernel_id", ["matvec/block", "matvec/coalesced", "matvec/wide", "mul_mm/reference"])
def test_a_view_at_any_offset_is_right_or_refused(host: Backend, kernel_id: str, offset: int) -> None:
    refused = 0
    for kind in registry.kinds().values():
        sizes = f"3x{2 * kind.elements}" + ("x2" if kernel_id.startswith("mul_mm") else "")
        only = Selection(kernels=(kernel_id,), kinds=(kind.name,), shapes=(sizes,), builds=(Build.EXACT,))
        (planned,) = (one for one in catalog.expand(only) if one.case.kind == kind.name)
        case = replace(planned.case, layout=Layout(weights_offset=offset))
        if reason := registry.kernel(kernel_id).refuses(case):
            assert f"got {offset} bytes, want a multiple of {kind.lane_align}" in reason
            refused += 1
            continue
        assert differing(*run(host, case, 0)) == 0, kind.name
    wide = sum(offset % kind.lane_align > 0 for kind in registry.kinds().values())
    assert refused == (wide if kernel_id == "matvec/coalesced" else 0)


def first_with(cases: list[Case], rows: int) -> Case:
    return next(case for case in cases if case.shape["rows"] == rows and case.family == "ordinary")


def test_another_order_of_additions_has_other_bits(host: Backend) -> None:
    case = first_with(EXACT[CellName("matvec", "block", "Q4_K", Build.EXACT)], 37)
    plan, ran = run(host, case, 0)
    step = judge.step_of(plan.launches[0], plan, ran.images, case.family)
    other = registry.launch_kernel("matvec/coalesced").twin(step)
    assert np.count_nonzero(plan.buffer("out").view(ran.images["out"]) != other) > 37 / 2


def test_contraction_has_other_bits(host: Backend) -> None:
    if platform.machine() == "x86_64" and " fma " not in Path("/proc/cpuinfo").read_text(encoding="utf8"):
        pytest.skip("this CPU has no fused multiply-add to contract to")
    case = first_with(DEFAULT[CellName("mul_mm", "reference", "Q4_K", Build.DEFAULT)], 65)
    plan, ran = run(host, case, 0)
    assert differing(plan, ran) > 65 * 129 / 2
