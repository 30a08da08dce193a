"""On a real board: exact bits, guard bands, crashes and hangs beside sound cases, times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
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
DEADLINE_S = 120.0
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


def first_case(kernel_id: str) -> Case:
    """The kernel's first quick workload in the exact build, with the first kind that it serves."""
    kernel = registry.kernel(kernel_id)
    op = registry.op(kernel.op)
    tuples = ((kind,) * len(op.matrices) for kind in ("Q4_0", *registry.kinds()))
    kinds = next(kinds for kinds in tuples if kernel.serves(kinds))
    workload = op.quick(tuple(registry.kind(name) for name in kinds))[0]
    seeded = Seeded(workload.families[0], 1, inputs.FIXTURE_VERSION)
    return catalog.case_of(kernel, kinds, workload, seeded, kernel.builds[0])


def test_a_board_tells_what_it_is(board: Device) -> None:
    told = dict(board.fingerprint)
    assert {"sm", "sms", "memory_bytes", "l2_bytes", "bus_bits", "driver", "nvrtc", "cupy"} <= set(told)
    assert BACKEND.state(board).temperature_c is not None


@pytest.mark.parametrize("kernel_id", sorted(registry.built_in()))
def test_every_kernel_passes_and_exact_ones_have_the_twins_digest(
    board: Device, slot: Isolated, kernel_id: str
) -> None:
    case = first_case(kernel_id)
    found = slot.run(request_for(case, "cuda", device=board), DEADLINE_S)
    assert (found.verdict, found.reason) in ((Verdict.PASS, ""), (Verdict.SKIP, found.reason))
    if found.verdict is Verdict.PASS and case.build is Build.EXACT and case.op not in APPROXIMATE:
        twin = run_case(request_for(case), TWIN, ImageCache(FileStore()))
        assert found.output_digest == twin.output_digest


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1"])
def test_a_crash_is_one_and_the_next_case_runs(board: Device, slot: Isolated, kind: str) -> None:
    wild = matvec_case(rows=9, cols=96, kinds=(kind,))
    sound = matvec_case(rows=9, cols=96)
    assert slot.run(request_for(wild, "wild", device=board), DEADLINE_S).verdict is Verdict.CRASH
    assert slot.run(request_for(sound, "cuda", device=board), DEADLINE_S).verdict is Verdict.PASS


def test_a_hang_is_a_timeout_and_the_next_case_runs(board: Device, slot: Isolated) -> None:
    sound = matvec_case(rows=9, cols=96)
    slot.run(request_for(sound, "cuda", device=board), DEADLINE_S)
    hanging = matvec_case(rows=9, cols=96, kinds=("Q5_0",))
    assert slot.run(request_for(hanging, "wild", device=board), 30.0).verdict is Verdict.TIMEOUT
    assert slot.run(request_for(sound, "cuda", device=board), DEADLINE_S).verdict is Verdict.PASS


def test_a_write_before_a_buffer_is_told(board: Device, slot: Isolated) -> None:
    found = slot.run(request_for(matvec_case(kinds=("Q4_1",)), "wild", device=board), DEADLINE_S)
    assert found.verdict is Verdict.FAIL
    assert "bytes written before it" in found.reason


def test_flush_buffers_pass_too(board: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_CUDA_ALLOCATOR", "flush")
    with closing(Isolated()) as slot:
        found = slot.run(request_for(matvec_case(rows=37, cols=768), "cuda", device=board), DEADLINE_S)
    assert (found.verdict, found.reason) == (Verdict.PASS, "")


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
