"""Passes over a board that isn't there: which is judged, what each finds in its output, what is counted."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from kernels.evidence import Verdict
from kernels.model import Grid, Plan
from tests.workers.cases import matvec_case, request_for
from tests.workers.cuda.test_backend import plan_and_images
from tests.workers.fakes.cuda_driver import DEVICE, Entry, FakeDriver, fake_cuda
from workers import effort
from workers.backends.twin import BACKEND as TWIN
from workers.benchmark import bench_case
from workers.effort import Effort
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.timed import Rounds, Timing


def two_copies(rows: int = 5) -> tuple[Plan, list[dict[str, np.ndarray]]]:
    """The plan, and two sets of inputs: the second of zeros."""
    plan, first = plan_and_images(matvec_case(rows=rows))
    return plan, [first, {**first, "x": np.zeros_like(first["x"])}]


def out_of(timing: Timing, plan: Plan) -> np.ndarray:
    return plan.buffer("out").view(timing.run.images["out"])


def test_timing_counts_passes_and_brings_the_chosen_one_home() -> None:
    driver = FakeDriver()
    plan, copies = two_copies()
    timing = fake_cuda(driver).time(plan, copies, DEVICE, Rounds(batches=3, passes=4, warmups=2, chosen=5), 1)
    assert driver.calls.count("launch") == 2 + 3 * 4
    assert timing.pass_us == (2.5, 5.0, 2.5)  # the middle batch has two parts: the copy aside isn't timed
    assert len(timing.queue_us) == 3
    assert min(timing.queue_us) > 0
    assert (out_of(timing, plan) == 0).all()
    assert timing.run.guards == ()
    assert driver.memory == {}


@pytest.mark.parametrize("chosen", range(12))
def test_an_output_holds_what_other_inputs_gave_before_every_pass(chosen: int) -> None:
    """Whatever pass is chosen, the launches are the same, on outputs that no input of theirs wrote last."""
    driver = FakeDriver()
    plan, copies = two_copies()
    last: dict[int, int] = {}
    at = [getattr(arg, "buffer", "") for arg in plan.launches[0].args]
    timing = fake_cuda(driver).time(plan, copies, DEVICE, Rounds(3, 4, 2, chosen), 1)
    pairs = [(int(args[at.index("x")]), int(args[at.index("out")])) for args in driver.passed]
    for x, out in pairs:
        assert last.get(out) != x
        last[out] = x
    assert len(set(pairs[2:])) == 4
    assert pairs[2:6] * 3 == pairs[2:]
    want = TWIN.run(plan, copies[chosen % 2], DEVICE, 0).images["out"]
    assert np.array_equal(timing.run.images["out"], want)


def test_a_kernel_that_does_nothing_where_its_output_holds_numbers_is_judged_wrong() -> None:
    """It would compute where it finds poison, and so in a pass whose outputs nobody had written before."""
    driver = FakeDriver()
    plan, copies = two_copies()
    at = [getattr(arg, "buffer", "") for arg in plan.launches[0].args].index("out")
    run, skipped = driver.launch, 0

    def lazy(entry: Entry, grid: Grid, block: Grid, args: tuple[np.generic, ...], shared: int) -> None:
        nonlocal skipped
        if np.isnan(np.frombuffer(ctypes.string_at(int(args[at]), 4), np.float32)[0]):
            run(entry, grid, block, args, shared)
        else:
            skipped += 1

    driver.launch = lazy
    for chosen in range(12):
        skipped = 0
        timing = fake_cuda(driver).time(plan, copies, DEVICE, Rounds(3, 4, 2, chosen), 1)
        want = plan.buffer("out").view(TWIN.run(plan, copies[chosen % 2], DEVICE, 0).images["out"])
        assert not np.allclose(out_of(timing, plan), want)
        assert skipped == 2 + 12


def test_a_benchmark_of_a_kernel_that_is_lazy_by_poison_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(effort.EFFORTS, "cuda", Effort(5, 0.0, 0.0, 4, 0, 2, 1 << 16))
    driver = FakeDriver()
    run = driver.launch

    def lazy(entry: Entry, grid: Grid, block: Grid, args: tuple[np.generic, ...], shared: int) -> None:
        of_the_farm = entry.name.startswith("yardstick")
        if of_the_farm or np.isnan(np.frombuffer(ctypes.string_at(int(args[2]), 4), np.float32)[0]):
            run(entry, grid, block, args, shared)

    driver.launch = lazy
    plan, _ = plan_and_images(matvec_case(rows=9, cols=96))
    assert getattr(plan.launches[0].args[2], "buffer", "") == "out"
    request = request_for(matvec_case(rows=9, cols=96), "cuda", device=DEVICE)
    found = bench_case(request, fake_cuda(driver), ImageCache(FileStore()))
    assert found.verdict is Verdict.FAIL
    assert "while it was timed" in found.reason


def test_an_output_that_is_filled_on_purpose_is_so_in_the_chosen_pass() -> None:
    driver = FakeDriver()
    plan, copies = two_copies()
    buffers = tuple(replace(b, fill=7.0) if b.name == "out" else b for b in plan.buffers)
    driver.launch = lambda *args: None  # finds what lies there
    timing = fake_cuda(driver).time(replace(plan, buffers=buffers), copies, DEVICE, Rounds(3, 4, 2, 7), 1)
    assert (out_of(timing, plan) == 7.0).all()
    assert "copy" not in driver.calls


def test_the_chosen_pass_is_seen_to_write_nothing_whatever_others_put_out() -> None:
    driver, launches = FakeDriver(), iter(range(100))
    plan, copies = two_copies()
    run = driver.launch

    def lazy(*args: object) -> None:
        if next(launches) != 2 + 6:
            run(*args)

    driver.launch = lazy
    timing = fake_cuda(driver).time(plan, copies, DEVICE, Rounds(3, 4, 2, chosen=6), 0)
    want = plan.buffer("out").view(TWIN.run(plan, copies[0], DEVICE, 0).images["out"])
    assert (out_of(timing, plan) == 0).all()  # of the zeros that the pass before read
    assert not (want == 0).any()
