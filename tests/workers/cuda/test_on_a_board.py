"""On a real board: exact bits, guard bands, crashes and hangs beside sound cases, times."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog, inputs, registry
from kernels.evidence import Verdict
from kernels.model import Build, Case, Device, Seeded
from tests.workers.cases import matvec_case, request_for
from workers.backend import Unavailable
from workers.backends.cuda import BACKEND
from workers.backends.twin import BACKEND as TWIN
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.isolate import Isolated
from workers.runner import run_case
from workers.timed import Rounds

pytestmark = pytest.mark.gpu
FAKES = Path(__file__).parents[1] / "fakes"
DEADLINE_S, BENCH_DEADLINE_S = 120.0, 300.0
HANG_S = 30.0  # in which a case that ends has long ended, its compiler included
RECOVERED_S = 3.0
APPROXIMATE = ("rmsnorm", "add_rmsnorm", "silu_mul", "ffn")  # rsqrtf or expf: no bits are claimed to be equal


@pytest.fixture(scope="module")
def board() -> Device:
    try:
        return BACKEND.devices()[0]
    except Unavailable as why:
        pytest.skip(f"no board: {why}")


@pytest.fixture
def slot() -> Iterator[Isolated]:
    with closing(Isolated(FAKES)) as made:
        yield made


def first_case(kernel_id: str, build: Build | None = None) -> Case:
    """The kernel's first quick workload, in its first build unless named, with the first kind it serves."""
    kernel = registry.kernel(kernel_id)
    op = registry.op(kernel.op)
    tuples = ((kind,) * len(op.matrices) for kind in ("Q4_0", *registry.kinds()))
    kinds = next(kinds for kinds in tuples if kernel.serves(kinds))
    workload = op.quick(tuple(registry.kind(name) for name in kinds))[0]
    seeded = Seeded(workload.families[0], 1, inputs.FIXTURE_VERSION)
    return catalog.case_of(kernel, kinds, workload, seeded, build or kernel.builds[0])


def test_a_board_tells_what_it_is(board: Device) -> None:
    told = dict(board.fingerprint)
    assert {"sm", "sms", "memory_bytes", "l2_bytes", "bus_bits", "driver", "nvrtc", "cupy"} <= set(told)
    assert BACKEND.state(board).temperature_c is not None


BUILDS = [
    (kernel_id, build)
    for kernel_id, kernel in sorted(registry.built_in().items())
    for build in (Build.EXACT, Build.DEFAULT)
    if build in kernel.builds
]


@pytest.mark.parametrize(("kernel_id", "build"), BUILDS)
def test_every_kernel_passes_in_its_builds_and_exact_ones_have_the_twins_digest(
    board: Device, slot: Isolated, kernel_id: str, build: Build
) -> None:
    case = first_case(kernel_id, build)
    found = slot.run(request_for(case, "cuda", device=board), DEADLINE_S)
    assert (found.verdict, found.reason) in ((Verdict.PASS, ""), (Verdict.SKIP, found.reason))
    if found.verdict is Verdict.PASS and build is Build.EXACT and case.op not in APPROXIMATE:
        assert found.output_digest == twins_digest(case)


def twins_digest(case: Case) -> str:
    return run_case(request_for(case), TWIN, ImageCache(FileStore())).output_digest


def test_what_the_driver_compiles_of_ptx_has_the_twins_digest(board: Device, slot: Isolated) -> None:
    case = matvec_case(rows=9, cols=96)
    found = slot.run(request_for(case, "older_compiler", device=board), DEADLINE_S)
    if ", JIT" not in found.compiler:
        pytest.skip(f"the compiler knows no architecture older than this board's ({found.compiler})")
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
    assert "PTX compute_" in found.compiler
    assert found.output_digest == twins_digest(case)


def test_the_librarys_product_passes_where_cublas_is(board: Device, slot: Isolated) -> None:
    found = slot.run(request_for(first_case("gemm/library"), "cuda", device=board), DEADLINE_S)
    if found.verdict is Verdict.SKIP:
        pytest.skip(found.reason)
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
    assert found.launches[0].library.startswith("cuBLAS ")


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1"])
def test_a_crash_is_one_and_its_neighbours_have_the_same_bits(board: Device, kind: str) -> None:
    wild, sound = matvec_case(rows=9, cols=96, kinds=(kind,)), matvec_case(rows=9, cols=96)
    with closing(Isolated(FAKES, checker=lambda _: "")) as slot:
        before = slot.run(request_for(sound, "cuda", device=board), DEADLINE_S)
        assert slot.run(request_for(wild, "wild", device=board), DEADLINE_S).verdict is Verdict.CRASH
        crashed = time.monotonic()
        after = slot.run(request_for(sound, "cuda", device=board), DEADLINE_S)
        assert time.monotonic() - crashed < RECOVERED_S
    assert (before.verdict, after.verdict) == (Verdict.PASS, Verdict.PASS)
    assert before.output_digest == after.output_digest == twins_digest(sound)


def test_a_hang_is_a_timeout_and_its_neighbours_have_the_same_bits(board: Device, slot: Isolated) -> None:
    sound, hanging = matvec_case(rows=9, cols=96), matvec_case(rows=9, cols=96, kinds=("Q5_0",))
    before = slot.run(request_for(sound, "cuda", device=board), DEADLINE_S)
    began = time.monotonic()
    assert slot.run(request_for(hanging, "wild", device=board), HANG_S).verdict is Verdict.TIMEOUT
    assert time.monotonic() - began < HANG_S + RECOVERED_S
    after = slot.run(request_for(sound, "cuda", device=board), DEADLINE_S)
    assert (before.verdict, after.verdict) == (Verdict.PASS, Verdict.PASS)
    assert before.output_digest == after.output_digest


def test_a_write_before_a_buffer_is_told(board: Device, slot: Isolated) -> None:
    found = slot.run(request_for(matvec_case(kinds=("Q4_1",)), "wild", device=board), DEADLINE_S)
    assert found.verdict is Verdict.FAIL
    assert "bytes written before it" in found.reason


def test_flush_buffers_pass_too(board: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_CUDA_ALLOCATOR", "flush")
    with closing(Isolated()) as slot:
        found = slot.run(request_for(matvec_case(rows=37, cols=768), "cuda", device=board), DEADLINE_S)
    assert (found.verdict, found.reason) == (Verdict.PASS, "")


@pytest.mark.parametrize(("allocator", "verdict"), [("plain", Verdict.PASS), ("flush", Verdict.CRASH)])
def test_a_read_past_the_end_is_a_crash_where_nothing_is_mapped_there(
    board: Device, monkeypatch: pytest.MonkeyPatch, allocator: str, verdict: Verdict
) -> None:
    monkeypatch.setenv("FARM_CUDA_ALLOCATOR", allocator)
    reading = matvec_case(rows=9, cols=256, kinds=("Q6_K",))
    with closing(Isolated(FAKES)) as slot:
        found = slot.run(request_for(reading, "wild", device=board), DEADLINE_S)
    assert found.verdict is verdict, found.reason


def test_a_case_too_small_to_be_timed_is_launch_bound(board: Device, slot: Isolated) -> None:
    asked = replace(request_for(matvec_case(rows=9, cols=96), "cuda", device=board), bench=True)
    found = slot.run(asked, BENCH_DEADLINE_S)
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
    assert found.benchmark is not None
    assert "launch-bound" in found.benchmark.refused


def test_times_are_the_boards_own(board: Device) -> None:
    before = dict(os.environ)
    plan = registry.kernel("matvec/coalesced").plan(case := matvec_case(4096, 4096, kernel="coalesced"))
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    try:
        timing = BACKEND.time(plan, [images, images], board, Rounds(5, 20, 20, chosen=33), 0)
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert 1.0 < float(np.median(timing.pass_us)) < 1e5
    want = plan.buffer("out").view(TWIN.run(plan, images, board, 0).images["out"])
    assert np.array_equal(plan.buffer("out").view(timing.run.images["out"]), want)
