"""The row that a reader of docs looks for: board, driver, day, verdict, exact, bytes a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from db.benchmark import Timed
from db.cell import CellKey
from farm.exports import export
from farm.matrix import Matrix, Row
from farm.measured import measured
from kernels.benchmark import Benchmark, spread
from kernels.evidence import Verdict
from kernels.model import Build
from tests.farm.grids import GPU, capability, matrix_of
from tests.workers.cases import matvec_case, request_for
from tests.workers.fakes.cuda_driver import DEVICE, FakeDriver, fake_cuda
from workers import bundle, effort
from workers.benchmark import bench_case
from workers.effort import Effort
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.runner import run_case

EXACT, DEFAULT = (Row("matvec", "wide", "Q4_K", build) for build in ("exact", "default"))
RAN_US = 1_796_083_200_000_000  # 2026-12-01
ROW = (
    "NVIDIA RTX 3060 (rtx-3060-cccc), driver 575.57.08, 2026-12-01: "
    "matvec/wide Q4_K default 4096x4096: PASS, exact, 312 GB/s"
)


def timed(refused: str = "", source: str = "now", driver: str = "575.57.08") -> Timed:
    """3,120 bytes in 10 ns."""
    found = Benchmark(spread([0.01]), 3_120, 4, 8, 3, 3_000, 64, 5, 77, "d" * 64, refused=refused)
    key = CellKey(GPU.slug, "cuda", *DEFAULT, source)
    return Timed(key, GPU.device_class, "4096x4096", "c", "e", "", RAN_US, found, driver)


def matrix(one: Timed, verdict: Verdict = Verdict.PASS, rungs: tuple[str, ...] = ("exact",)) -> Matrix:
    """The kernel's two builds on a board, and a benchmark of the build default."""
    found = [
        capability(device=GPU, backend="cuda", row=EXACT, rungs=rungs),
        capability(verdict, device=GPU, backend="cuda", row=DEFAULT),
    ]
    return replace(matrix_of(found, (EXACT, DEFAULT), [GPU]), times=(one,))


def test_a_board_has_its_row() -> None:
    assert measured(matrix(timed())) == [ROW]
    assert f"## Measured on boards\n\n- {ROW}" in export("md").render(matrix(timed()))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (matrix(timed(driver="")), ROW.replace(", driver 575.57.08", "")),
        (matrix(timed(), rungs=("device",)), ROW.replace(", exact", "")),
        (matrix(timed(), Verdict.FAIL), ROW.replace("PASS", "FAIL")),
    ],
)
def test_it_says_no_more_than_is_known(made: Matrix, said: str) -> None:
    assert measured(made) == [said]


@pytest.mark.parametrize("one", [timed(refused="hot"), timed(source="older")])
def test_a_refused_time_and_another_sources_are_no_row(one: Timed) -> None:
    assert measured(matrix(one)) == []
    assert "Measured" not in export("md").render(matrix(one))


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A bundle of one kernel in both builds, the second timed, from a board that this machine plays."""
    before = dict(os.environ)
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    monkeypatch.setitem(effort.EFFORTS, "cuda", Effort(5, 0.0, 0.0, 4, 0, 2, 1 << 16))
    cache, path = ImageCache(FileStore()), tmp_path / "board.jsonl"
    exact, default = (matvec_case(rows=9, cols=96, build=build) for build in (Build.EXACT, Build.DEFAULT))
    lines = [
        run_case(request_for(exact, "cuda", device=DEVICE), fake_cuda(), cache),
        bench_case(request_for(default, "cuda", device=DEVICE), fake_cuda(FakeDriver(tick_us=1e9)), cache),
    ]
    path.write_text("".join(bundle.lines(lines)), encoding="utf8")
    yield path
    os.environ.clear()
    os.environ.update(before)


def test_a_bundle_from_a_board_gives_the_row(farm: Callable[..., Result], brought: Path) -> None:
    assert "2 new" in farm("import", str(brought)).output
    row = rf"NVIDIA GeForce RTX 3060 ({DEVICE.slug}), driver 575.57, "
    for words in (("status", "--device", "rtx-3060"), ("export", "--device", "rtx-3060")):
        said = " ".join(farm(*words).stdout.replace("\\", "").split())
        assert row in said
        assert "matvec/block Q4_0 default 9x96: PASS, exact, " in said
        assert " GB/s" in said
