"""One contract for every backend: those that run here keep it, the others say in one line why they can't."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kernels import catalog, dtypes, inputs, judge, registry
from kernels.evidence import Verdict
from kernels.model import Build, Case, Device, Plan, Role, Seeded
from kernels.op import Workload
from tests.workers.cases import matvec_case, request_for
from tests.workers.fakes.cuda_driver import fake_cuda
from workers import backend
from workers.backend import POISONS, Backend, Run, Unavailable, poisoned
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.runner import run_case

NAMES = backend.names()
RUNNING = [name for name in NAMES if backend.executes(backend.backend(name))]


@pytest.fixture(autouse=True, scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One compile cache for all the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def devices_or_reason(found: Backend) -> tuple[tuple[Device, ...], str]:
    try:
        return found.devices(), ""
    except Unavailable as why:
        return (), str(why)


@pytest.fixture(params=RUNNING)
def runs_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    found = backend.backend(request.param)
    if request.param == "cuda" and devices_or_reason(found)[1]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # which the backend sets: given back behind the test
        return fake_cuda()
    if reason := devices_or_reason(found)[1]:
        pytest.skip(reason)
    return found


def plan_and_images(case: Case) -> tuple[Plan, dict[str, np.ndarray]]:
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    return plan, inputs.images(case, plan, registry.op(case.op).operands(case))


def ran(runs: Backend, case: Case, turn: int = 0) -> tuple[Plan, dict[str, np.ndarray], Run]:
    plan, images = plan_and_images(case)
    return plan, images, runs.run(plan, images, runs.devices()[0], turn)


@pytest.mark.parametrize("name", NAMES)
def test_devices_are_named_or_the_reason_is_one_line(name: str) -> None:
    found = backend.backend(name)
    assert found.name == name
    assert found.orders >= 0
    devices, reason = devices_or_reason(found)
    assert bool(devices) != bool(reason)
    assert "\n" not in reason
    for device in devices:
        assert set(device.slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
        assert device.slug.startswith(device.device_class)
        assert device.slots >= 1
        assert device.fingerprint


def test_host_is_unavailable_with_the_remedy_when_there_is_no_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    devices, reason = devices_or_reason(backend.backend("host"))
    assert (devices, reason) == (
        (),
        "host is unavailable because there is no C++ compiler; apt-get install g++",
    )


def test_devices_are_the_same_when_asked_again(runs_here: Backend) -> None:
    assert runs_here.devices() == runs_here.devices()


def test_run_returns_every_buffer_and_leaves_the_inputs(runs_here: Backend) -> None:
    case = matvec_case(rows=9, cols=96)
    plan, images = plan_and_images(case)
    before = inputs.digest(images)
    for image in images.values():
        image.flags.writeable = False
    run = runs_here.run(plan, images, runs_here.devices()[0], 0)
    assert {name: image.nbytes for name, image in run.images.items()} == {
        b.name: b.nbytes for b in plan.buffers
    }
    assert inputs.digest(images) == before
    assert (run.guards, bool(run.compiler)) == ((), True)


def test_launch_records_repeat_the_plan_when_anything_is_launched(runs_here: Backend) -> None:
    plan, _, run = ran(runs_here, matvec_case(rows=9, cols=96))
    if runs_here.name == "twin":
        assert run.launches == ()
        return
    assert [(r.kernel, r.entry, r.grid, r.block, r.dynamic_shared_bytes) for r in run.launches] == [
        (step.kernel, step.entry, step.grid, step.block, step.dynamic_shared_bytes) for step in plan.launches
    ]
    assert all(len(record.symbol_digest) == 64 for record in run.launches)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_what_no_kernel_writes_holds_the_poison_of_the_turn(runs_here: Backend, turn: int) -> None:
    plan, images = plan_and_images(matvec_case(rows=5))
    wider = tuple(replace(b, nbytes=b.nbytes + 8) if b.role is Role.OUT else b for b in plan.buffers)
    run = runs_here.run(replace(plan, buffers=wider), images, runs_here.devices()[0], turn)
    assert run.images["out"][-8:].view(np.uint32).tolist() == [POISONS[turn]] * 2


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
def test_an_element_of_16_bits_that_nobody_wrote_gives_itself_away(dtype: str) -> None:
    of = dtypes.dtype(dtype)
    for turn, word in enumerate(POISONS):
        image = poisoned(6, turn, dtype)
        assert dtypes.bits(image.view(of)).tolist() == [dtypes.poison(word, of)] * 3


def test_bytes_that_nobody_wrote_differ_between_the_first_two_turns() -> None:
    assert (poisoned(64, 0, "u1") != poisoned(64, 1, "u1")).all()


def test_outputs_have_the_same_bits_in_every_order(runs_here: Backend) -> None:
    plan, _, first = ran(runs_here, matvec_case(rows=9, cols=96))
    others = [
        ran(runs_here, matvec_case(rows=9, cols=96), turn)[2] for turn in range(1, runs_here.orders + 1)
    ]
    assert judge.repeats(plan, [first.images, *(run.images for run in others)]) == ""


@cache
def first_workload(op: str, kinds: tuple[str, ...]) -> Workload:
    return registry.op(op).quick(tuple(registry.kind(name) for name in kinds))[0]


def quick_case(kernel_id: str, build: Build) -> Case:
    """The kernel's first quick workload, with the first kind that it serves, Q4_0 if it can."""
    kernel = registry.kernel(kernel_id)
    op = registry.op(kernel.op)
    tuples = ((kind,) * len(op.matrices) for kind in ("Q4_0", *registry.kinds()))
    kinds = next(kinds for kinds in tuples if kernel.serves(kinds))
    workload = first_workload(op.name, kinds)
    seeded = Seeded(workload.families[0], 1, inputs.FIXTURE_VERSION)
    return catalog.case_of(kernel, kinds, workload, seeded, build)


@pytest.mark.parametrize(
    ("kernel_id", "build"),
    [(kernel.id, build) for kernel in registry.all_kernels().values() for build in kernel.builds],
)
def test_every_kernel_passes_its_first_workload(runs_here: Backend, kernel_id: str, build: Build) -> None:
    device = runs_here.devices()[0]
    request = request_for(quick_case(kernel_id, build), runs_here.name, device=device)
    evidence = run_case(request, runs_here, ImageCache(FileStore()))
    if (runs_here.name, kernel_id) == ("twin", "mul_mm/mma"):  # which has none
        assert (evidence.verdict, "has no twin" in evidence.reason) == (Verdict.SKIP, True)
        return
    assert (evidence.verdict, evidence.reason) == (Verdict.PASS, "")
    assert evidence.comparison is not None
    assert evidence.comparison.positions > 0
    case = quick_case(kernel_id, build)
    of_bytes = judge.puts_out_bytes(registry.kernel(kernel_id).plan(case))
    assert evidence.repeats == max(runs_here.orders if build is Build.EXACT else 1, 1 + of_bytes)


def test_output_digest_equals_the_twins_in_the_exact_build(runs_here: Backend) -> None:
    cache_ = ImageCache(FileStore())
    asked = ((one, one.devices()[0]) for one in (backend.backend("twin"), runs_here))
    digests = {
        run_case(
            request_for(matvec_case(rows=9, cols=96), one.name, device=device), one, cache_
        ).output_digest
        for one, device in asked
    }
    assert "" not in digests
    assert len(digests) == 1
