"""Cases from the field about how many rows there are: past the largest grid.y, and odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.evidence import Verdict
from kernels.model import Case, Device, Launch, Layout, Plan, Shape
from tests.cases.making import LINEAR, RunCase, found, linear_case, run_with, tokens
from tests.workers.zoo import Wrong
from workers.backend import Run
from workers.backends.host import Host
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import run_case

ROWS = (65535, 65536, 70000)  # the largest grid.y, one more, and many more
GRID_Y_MOST = 65535


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kernel", LINEAR)
def test_case_01_rows_mapped_to_grid_y_are_all_computed(run: RunCase, kernel: str, rows: int) -> None:
    """By the twin's bits, which takes one row after the other, and with no grid.y past its limit."""
    line = run(linear_case(kernel, "Q4_0", rows, blocks=1))
    assert found(line) == (Verdict.PASS, rows * tokens(kernel))
    assert line.comparison is not None
    assert line.comparison.bit_exact
    assert line.launches[0].grid[1] <= GRID_Y_MOST


def outputs(case: Case, path: Path) -> np.ndarray:
    request = Request("e", case, "host", Host().devices()[0], output=str(path))
    assert run_case(request, Host(), ImageCache(FileStore())).verdict is Verdict.PASS
    return np.asarray(np.load(path))


@pytest.mark.parametrize("kernel", ["matvec/block", "matvec/coalesced"])
def test_case_01_rows_mapped_to_grid_y_are_the_same_numbers_whatever_their_count(
    run: RunCase, kernel: str, tmp_path: Path
) -> None:
    few, many = (
        outputs(linear_case(kernel, "Q4_0", rows, blocks=1), tmp_path / "o.npy") for rows in (65535, 70000)
    )
    assert np.array_equal(many[: len(few)], few)
    assert np.count_nonzero(many[len(few) :]) == 4465


def test_case_01_rows_mapped_to_grid_y_past_the_limit_are_refused_by_name(run: RunCase) -> None:
    most = GRID_Y_MOST * 64
    case = replace(
        linear_case("mul_mm/reference", "Q4_0", 1, 1), shape=Shape.of(rows=most + 1, cols=32, batch=1)
    )
    line = run(case)
    assert found(line) == (Verdict.SKIP, 0)
    assert line.reason == f"grid.y 65536 for {most + 1} rows is past CUDA's 65535; at most {most} rows"


class OnGridY(Host):
    """matvec/block with a row per blockIdx.y, and the grid that goes with it."""

    def __init__(self) -> None:
        edits = (("const int row = blockIdx.x;", "const int row = blockIdx.y;"),)
        super().__init__(Wrong("rows on y", "matvec/block", "Q4_0", edits).text)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        return super().run(replace(plan, launches=tuple(map(on_y, plan.launches))), images, device, turn)


def on_y(launch: Launch) -> Launch:
    return replace(launch, grid=(1, launch.grid[0], 1))


@pytest.mark.parametrize("rows", [65535, 65536])
def test_case_01_rows_mapped_to_grid_y_by_a_kernel_that_refuses_nothing(run: RunCase, rows: int) -> None:
    """At the limit the numbers are right and the launch isn't the planned one; past it there is no launch."""
    line = run_with(OnGridY(), linear_case("matvec/block", "Q4_0", rows, blocks=1))
    if rows == GRID_Y_MOST:
        assert found(line) == (Verdict.ERROR, rows)
        assert "launch 0 was ('matvec_block_q4_0', (1, 65535, 1)" in line.reason
    else:
        assert line.verdict.bad
        assert "65535" in line.reason


ODD_ROWS = 51865  # 8 * 6483 + 1, 64 * 810 + 25
BATCH = 3


def odd_case(kernel: str, kind: str = "Q5_1") -> Case:
    case = linear_case(kernel, kind, ODD_ROWS, blocks=1)
    if kernel.startswith("mul_mm"):
        return replace(case, shape=Shape.of(rows=ODD_ROWS, cols=32, batch=BATCH))
    return case


@pytest.mark.parametrize("kernel", LINEAR)
def test_case_02_odd_row_count_writes_nothing_past_the_last_row(run: RunCase, kernel: str) -> None:
    line = run(odd_case(kernel))
    assert found(line) == (Verdict.PASS, ODD_ROWS * (BATCH if kernel.startswith("mul_mm") else 1))


UNGUARDED = {
    "matvec/coalesced": ("    if (row >= rows)\n        return;\n", ""),
    "mul_mm/reference": ("if (token < batch && row < rows)", "if (token < batch)"),
}


@pytest.mark.parametrize("kernel", UNGUARDED)
def test_case_02_odd_row_count_without_its_guard_fails(run: RunCase, kernel: str) -> None:
    """The last thread block's other rows: weights behind the end, outputs behind the last row's."""
    wrong = Wrong("no guard", kernel, "Q5_1", (UNGUARDED[kernel],))
    line = run(odd_case(kernel), wrong)
    assert line.verdict in (Verdict.FAIL, Verdict.CRASH)
    assert "past the end of buffer" in line.reason or "written behind it" in line.reason


@pytest.mark.parametrize("kernel", UNGUARDED)
def test_case_02_odd_row_count_hides_the_missing_guard_where_it_is_even(run: RunCase, kernel: str) -> None:
    """The reason for the odd count: with whole thread blocks the same kernel passes."""
    wrong = Wrong("no guard", kernel, "Q5_1", (UNGUARDED[kernel],))
    case = linear_case(kernel, "Q5_1", 128, blocks=1)
    assert found(run(case, wrong)) == (Verdict.PASS, 128 * tokens(kernel))


ROW_OFFSET_IN_32_BITS = {
    "matvec/block": ("row * row_bytes", "(int)(row * row_bytes)"),
    "matvec/coalesced": ("row * row_bytes", "(int)(row * row_bytes)"),
    "mul_mm/reference": ("row * row_bytes", "(int)(row * row_bytes)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", LINEAR)
def test_weights_past_2_to_the_31_bytes_show_an_offset_of_32_bits(run: RunCase, kernel: str) -> None:
    """Three rows a GiB apart: 3 GiB twice, and no more work than three rows are."""
    case = linear_case(kernel, "Q8_0", 3, blocks=3, layout=Layout(row_padding=2**30))
    right = run(case)
    if right.verdict is Verdict.SKIP:
        pytest.skip(right.reason)
    assert found(right) == (Verdict.PASS, 3 * tokens(kernel))
    line = run(case, Wrong("32 bits", kernel, "Q8_0", (ROW_OFFSET_IN_32_BITS[kernel],)))
    assert line.verdict is Verdict.CRASH
    assert line.reason.startswith("wild access")
