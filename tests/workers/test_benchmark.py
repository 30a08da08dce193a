"""A benchmark is of launches that really computed: replays, throttling and miracles prove nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from kernels import registry
from kernels.benchmark import Limit, Spread, gb_per_s, spread
from kernels.evidence import Evidence, Verdict
from kernels.limits import Board, Work, limits
from kernels.model import Case, Device, FromFile, Plan, Shape
from tests.workers.cases import matvec_case, request_for
from tests.workers.fakes.timed import FakeTimed
from workers.backend import BoardFault, CannotRun, KernelFault, Overrun, Run, filled
from workers.backends.twin import BACKEND as TWIN
from workers.benchmark import bench_case, fresh
from workers.effort import Bench, bytes_of, impossible
from workers.image_cache import ImageCache
from workers.isolate import Isolated
from workers.machine import cpu_device
from workers.request import SPOILED
from workers.timed import BoardState, Rounds, Timing
from workers.work import board_of, cache_bytes, sheet_gb_per_s, work_of
from workers.yardsticks import YARDSTICKS

FAKES = Path(__file__).parent / "fakes"
CASE = matvec_case(rows=9, cols=96)
GPU = replace(
    cpu_device(),
    fingerprint=(
        ("sm", "sm_86"),
        ("sms", "28"),
        ("l2_bytes", "3145728"),
        ("bus_bits", "192"),
        ("memory_clock_mhz", "7501"),
    ),
)


def benched(backend: FakeTimed, case: Case = CASE, device: Device | None = None) -> Evidence:
    request = replace(request_for(case, backend.name), bench=True, device=device or cpu_device())
    return bench_case(request, backend, ImageCache(None))


@dataclass
class Fake(FakeTimed):
    """The fake with the host's name, whose figures are few and small."""

    name: str = "host"


def test_benchmark_has_figures_marks_and_limits() -> None:
    line = benched(Fake(lambda batch: (10.0, 12.0, 11.0, 90.0, 10.5)[batch % 5]))
    found = line.benchmark
    assert (line.verdict, line.reason) == (Verdict.PASS, "")
    assert found is not None
    assert found.spread == Spread(5, 11.0, 10.2, 58.80000000000001, 1.0)
    assert found.nbytes == 9 * 54 + 96 * 4 + 9 * 4
    assert found.gb_per_s == pytest.approx(found.nbytes / 11.0 / 1000)
    assert [mark.name for mark in found.marks] == ["copy", "read", "gemm f16", "gemm f32"]
    assert [limit.name for limit in found.limits] == ["copy", "read"]
    assert found.least is not None
    assert found.share_of_least == found.least.pass_us / 11.0
    assert (found.copies, found.refused, found.cache_bytes) == (2, "", 0)


@dataclass
class Replaying(Fake):
    """Computes once and then hands out what it has."""

    kept: list[Run] = field(default_factory=list)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        if plan.launches[0].kernel.startswith("yardstick"):
            return super().run(plan, images, device, turn)
        self.kept = self.kept or [super().run(plan, images, device, turn)]
        return self.kept[0]


def test_an_old_answer_is_found_out() -> None:
    line = benched(Replaying())
    assert line.verdict is Verdict.FAIL
    assert line.reason.startswith("pass ")
    assert line.benchmark is not None
    assert line.benchmark.refused == "the pass that was judged was FAIL"


@dataclass
class Idle(Fake):
    """Times launches that never happen: the output is as it was filled."""

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        timing = super().time(plan, copies, device, rounds, turn)
        images = {b.name: filled(b, turn) if b.put_out else timing.run.images[b.name] for b in plan.buffers}
        return replace(timing, run=replace(timing.run, images=images))


def test_a_launch_that_writes_nothing_is_found_out_by_its_poison() -> None:
    line = benched(Idle())
    assert line.verdict is Verdict.FAIL
    assert "never written" in line.reason
    assert line.benchmark is not None
    assert line.benchmark.notes[:2] == (
        "no copy: what it put out is wrong",
        "no read: what it put out is wrong",
    )


@pytest.mark.parametrize(
    ("board", "refused", "notes"),
    [
        (BoardState(throttled_by=("sw_thermal_slowdown",)), "slowed down by sw_thermal_slowdown", ()),
        (BoardState(throttled_by=("hw_slowdown",)), "slowed down by hw_slowdown", ()),
        (BoardState(throttled_by=("sw_power_cap",)), "", ("power cap",)),
        (BoardState(throttled_by=(), sm_clock_mhz=1777, temperature_c=60), "", ()),
    ],
)
def test_heat_refuses_a_figure_and_a_power_cap_is_told(
    board: BoardState, refused: str, notes: tuple[str, ...]
) -> None:
    found = benched(Fake(board=board)).benchmark
    assert found is not None
    assert (found.refused, found.notes) == (refused, notes)
    assert dict(found.before).get("sm_clock_mhz") == (str(board.sm_clock_mhz) if board.sm_clock_mhz else None)


def test_more_than_the_data_sheet_is_a_failed_measurement() -> None:
    assert sheet_gb_per_s(GPU) == pytest.approx(360.0, rel=1e-3)
    uncached = replace(GPU, fingerprint=tuple(fact for fact in GPU.fingerprint if fact[0] != "l2_bytes"))
    slow, fast = (benched(Fake(lambda _, us=us: us), device=uncached).benchmark for us in (10.0, 1e-3))
    assert slow is not None
    assert fast is not None
    assert (slow.refused, fast.refused) == ("", "906 GB/s, the data sheet says 360")


@pytest.mark.parametrize(
    ("queue_us", "refused"),
    [
        (0.0, ""),
        (7.9, ""),
        (8.1, "launch-bound: queueing a pass took 8.1 of 10.0 µs; take a larger shape"),
        (10.0, "launch-bound: queueing a pass took 10.0 of 10.0 µs; take a larger shape"),
    ],
)
def test_a_figure_of_queueing_launches_is_refused(queue_us: float, refused: str) -> None:
    found = benched(Fake(queue_us=queue_us)).benchmark
    assert found is not None
    assert found.refused == refused
    assert len(found.marks) == (0 if refused else 4)
    assert f"no copy: {refused}" in found.notes or not refused


@pytest.mark.parametrize(
    ("limits_us", "told"),
    [
        ({"copy": 12.0, "read": 10.4}, ""),  # faster than the copy, as what only reads may be
        ({"copy": 12.0, "read": 10.6}, "106% of what read allows can't be"),
        ({"copy": 10.4}, ""),
        ({"copy": 12.0}, "120% of what copy allows can't be"),
        ({"copy": 9.0, "read": 8.0, "issue": 11.0}, "110% of what issue allows can't be"),
        ({}, ""),
    ],
)
def test_more_than_a_limit_allows_is_refused(limits_us: dict[str, float], told: str) -> None:
    found = benched(Fake()).benchmark
    assert found is not None
    limits = tuple(Limit(name, us, "by hand") for name, us in limits_us.items())
    assert impossible(replace(found, spread=spread([10.0]), limits=limits)) == told


def test_weights_are_rotated_by_four_caches_and_drawn_by_seeds_of_their_own() -> None:
    bench = Bench(FakeTimed(), GPU)
    plan = registry.kernel("matvec/block").plan(CASE)
    assert cache_bytes(GPU) == 3 << 20
    assert bench.copies_of(1 << 20) == 256
    assert (
        Bench(FakeTimed(), replace(GPU, fingerprint=(("l2_bytes", str(100 << 20)),))).copies_of(1 << 20)
        == 400
    )
    seeds, copies = fresh(CASE, plan, Bench(Fake(), GPU))
    assert len({*seeds, CASE.x.seed}) == 1 + len(copies) == 3
    assert not np.array_equal(copies[0]["weights"], copies[1]["weights"])


def test_a_case_over_a_file_is_not_timed() -> None:
    of_file = replace(CASE, x=FromFile("0" * 64))
    with pytest.raises(CannotRun, match="the inputs are a file's"):
        fresh(of_file, registry.kernel("matvec/block").plan(CASE), Bench(Fake(), GPU))


def test_copies_that_fit_the_cache_are_refused() -> None:
    large = replace(GPU, fingerprint=(("l2_bytes", str(50 << 20)),))
    found = benched(Fake(), replace(CASE, shape=Shape.of(rows=1, cols=32)), large).benchmark
    assert found is not None
    assert found.copies * found.copied_bytes < 4 * found.cache_bytes
    wanted = "0 MB of copies, where four times the cache of 52 MB is wanted; take a larger shape"
    assert found.refused == wanted


def test_a_backend_that_measures_nothing_says_so() -> None:
    line = bench_case(request_for(CASE), TWIN, ImageCache(None))
    assert (line.verdict, line.reason, line.benchmark) == (
        Verdict.PASS,
        "not timed: twin measures nothing",
        None,
    )


def test_the_host_times_a_case_and_executes_the_yardsticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    with closing(Isolated()) as slot:
        line = slot.run(replace(request_for(CASE, "host"), bench=True), 120.0)
    found = line.benchmark
    assert found is not None
    assert (line.verdict, found.refused, found.notes) == (Verdict.PASS, "", ())
    assert {mark.name for mark in found.marks} >= {one.name for one in YARDSTICKS}
    assert all(mark.spread.median_us > 0 for mark in found.marks)


def test_a_process_that_dies_over_a_yardstick_is_no_crash_of_the_kernel() -> None:
    with closing(Isolated(FAKES)) as slot:
        line = slot.run(replace(request_for(CASE, "cracked"), bench=True), 60.0)
    assert (line.verdict, line.reason) == (Verdict.ERROR, "died of SIGSEGV in phase yardsticks")


@dataclass
class Breaking(Fake):
    """Raises an error while a yardstick, or the kernel itself, is timed."""

    error: Exception = field(default_factory=RuntimeError)
    at_yardsticks: bool = False

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        if plan.launches[0].kernel.startswith("yardstick") == self.at_yardsticks:
            raise self.error
        return super().time(plan, copies, device, rounds, turn)


@pytest.mark.parametrize(
    ("error", "at_yardsticks", "verdict", "told"),
    [
        (KernelFault("wild access"), False, Verdict.CRASH, "launch: wild access"),
        (KernelFault("wild access"), True, Verdict.ERROR, "yardsticks: wild access"),
        (Overrun("the watchdog"), False, Verdict.TIMEOUT, "launch: the watchdog"),
        (Overrun("the watchdog"), True, Verdict.ERROR, "yardsticks: the watchdog"),
        (BoardFault("Xid 79"), False, Verdict.ERROR, "launch: Xid 79"),
        (MemoryError("no room"), True, Verdict.ERROR, "yardsticks: MemoryError: no room"),
    ],
)
def test_what_fails_while_it_is_timed_is_blamed_on_whose_phase_it_is(
    error: Exception, at_yardsticks: bool, verdict: Verdict, told: str
) -> None:
    said: list[str] = []
    request = replace(request_for(CASE, "host"), bench=True)
    line = bench_case(
        request, Breaking(error=error, at_yardsticks=at_yardsticks), ImageCache(None), announce=said.append
    )
    assert (line.verdict, line.reason) == (verdict, f"timed, in phase {told}")
    assert (line.comparison, line.output_digest, line.benchmark) == (None, "", None)
    # Nothing else may run in a process whose device had a fault; a CRASH ends its process anyway.
    assert (said[-1] == SPOILED) == (verdict is not Verdict.CRASH and not isinstance(error, MemoryError))


def test_limits_of_a_3060_are_as_worked_out_by_hand() -> None:
    work = Work(144 * 16, 256 * 16, 0, 11.0, 4.0)
    board = Board(86, 28, 1777.0, "by hand")
    found = {limit.name: limit.pass_us for limit in limits(work, board)}
    assert found == {
        "issue": pytest.approx(11 * 4096 / (128 * 28 * 1777)),
        "L1": pytest.approx(4 * 4096 / (128 * 28 * 1777)),
    }
    assert limits(work, Board(86)) == ()
    assert [limit.name for limit in limits(work, replace(board, sm=61))] == ["issue"]
    (tensor,) = limits(Work(0, tensor_macs=1 << 30), board)
    assert (tensor.name, tensor.pass_us) == ("tensor", pytest.approx(2**30 / (512 * 28 * 1777)))
    assert limits(Work(0, tensor_macs=1 << 30), replace(board, sm=121)) == ()  # nobody said


def test_what_a_case_asks_is_read_off_its_matrices() -> None:
    found = work_of(replace(CASE, kernel="coalesced"), 100)
    assert (found.weights, found.macs, found.l1_bytes_per_weight) == (9 * 96, 0, 4.0)
    product = replace(CASE, op="mul_mm", shape=Shape.of(rows=9, cols=96, batch=3))
    assert work_of(replace(product, kernel="reference"), 100).macs == 9 * 96 * 3
    in_tensor_cores = work_of(replace(product, kernel="mma"), 100)
    assert (in_tensor_cores.macs, in_tensor_cores.tensor_macs) == (0, 9 * 96 * 3)
    assert work_of(replace(product, kernel="reference"), 100).tensor_macs == 0
    assert board_of(GPU, BoardState(sm_clock_mhz=1777)) == Board(86, 28, 1777.0, "28 SMs at 1777 MHz")
    assert bytes_of(registry.kernel("matvec/block").plan(CASE)) == 9 * 54 + 96 * 4 + 9 * 4


def test_spread_is_not_moved_by_an_outlier() -> None:
    calm, wild = spread([10.0] * 9 + [11.0]), spread([10.0] * 9 + [1e6])
    assert (calm.median_us, calm.mad_us) == (wild.median_us, wild.mad_us) == (10.0, 0.0)
    assert gb_per_s(1000, 1.0) == 1.0
