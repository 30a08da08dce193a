"""Cutting a matrix down: rows, columns, age, rungs, and what is said when nothing answers."""

from __future__ import annotations

import pytest

from farm.matrix import Matrix, Row
from farm.narrow import Words, narrow, since_us
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict
from tests.farm.grids import BLOCK, CPU, GPU, H200, NOW_US, RTX_3060, capability, matrix_of

LANES = Row("matvec", "coalesced", "Q4_K", "exact")
TILES = Row("mul_mm", "reference", "Q4_K", "exact")
DAY_US = 86_400_000_000


def matrix() -> Matrix:
    """Three rows on a CPU, a board and a target; one of them bad on the CPU, one run today."""
    found = [
        capability(),
        capability(Verdict.FAIL, row=LANES, last_run_us=NOW_US - DAY_US),
        capability(device=GPU, backend="cuda", row=TILES, rungs=("device", "exact")),
    ]
    return matrix_of(found, rows=[BLOCK, LANES, TILES], devices=[CPU, GPU], targets=[H200, RTX_3060])


def rows_of(found: Matrix) -> set[str]:
    return {f"{cell.op}/{cell.kernel}" for cell in found.cells}


def classes_of(found: Matrix) -> list[str]:
    return [column.device_class for column in found.columns]


def test_nothing_said_leaves_everything() -> None:
    assert narrow(matrix(), Words()) == matrix()


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("matvec/*", {"matvec/block", "matvec/coalesced"}),
        ("mul_mm", {"mul_mm/reference"}),
        ("q4_k", {"matvec/coalesced", "mul_mm/reference"}),
        ("matvec/* kind:Q4_K", {"matvec/coalesced"}),
        ("verdict:fail", {"matvec/coalesced"}),
    ],
)
def test_rows_by_glob_and_by_filter_word(words: str, rows: set[str]) -> None:
    found = narrow(matrix(), Words(rows=words))
    assert rows_of(found) == rows
    assert classes_of(found) == ["cpu-x86_64", "rtx-3060", "h200"]


def test_columns_by_glob_and_by_filter_word() -> None:
    assert classes_of(narrow(matrix(), Words(columns="*3060"))) == ["rtx-3060"]
    assert classes_of(narrow(matrix(), Words(columns="sm:>=90"))) == ["h200"]
    assert len(narrow(matrix(), Words(columns="sm:>=90")).cells) == 3


def test_since_leaves_out_what_ran_before() -> None:
    found = narrow(matrix(), Words(since="2d"))
    assert [(cell.kernel, cell.verdict) for cell in found.cells] == [("coalesced", Verdict.FAIL)]
    assert since_us("2023-11-14", NOW_US) == NOW_US - (22 * 3600 + 13 * 60 + 20) * 1_000_000


def test_rungs_must_all_be_there() -> None:
    assert rows_of(narrow(matrix(), Words(rungs=("exact",)))) == {"matvec/block", "mul_mm/reference"}
    assert rows_of(narrow(matrix(), Words(rungs=("device", "exact")))) == {"mul_mm/reference"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (Words(rows="nothing/*"), r"no rows fit 'nothing/\*'; there are matvec/block, matvec/coalesced"),
        (Words(columns="rtx-5*"), r"no columns fit 'rtx-5\*'; there are cpu-x86_64, h200, rtx-3060"),
        (Words(rows="colour:red"), "no filter named 'colour'; there are verdict, op"),
        (Words(rungs=("proved",)), "no rung named 'proved'; there are twin, host"),
        (Words(since="yesterday"), "'yesterday' is no age and no day; write 30d"),
        (Words(since="2026-13-01"), "'2026-13-01' is no age and no day"),
    ],
)
def test_words_that_nothing_answers_to(words: Words, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        narrow(matrix(), words)


def test_nothing_left_names_what_to_leave_out() -> None:
    with pytest.raises(FarmError, match="no cell is left of 9; leave out --since or --rungs"):
        narrow(matrix(), Words(since="0d", rungs=("timed",)))
