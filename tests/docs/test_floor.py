"""What bounds a kernel by bytes, machine code and data sheet, worked out by hand for two boards."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from farm.floor import predicted
from farm.targets import target_gpus
from kernels.built import BuildRecord
from kernels.limits import Board, Work, limits
from kernels.model import Build, Shape
from tests.docs import floor
from tests.workers.cases import matvec_case

GPUS = {gpu.device_class: gpu for gpu in target_gpus()}
BUILD = BuildRecord(
    "matvec/coalesced", "Q4_K", "e", "sm_86", 256, 40, 0, 0, 0, 0, 0, 6, 1.0, "threads", "c" * 64, 1, "",
    instructions_per_weight=12.9,
)  # fmt: skip
CASE = matvec_case(
    kernel="coalesced", kinds=("Q4_K",), shape=Shape.of(rows=4096, cols=4096), build=Build.DEFAULT
)
BYTES = 4096 * 16 * 144 + 2 * 4 * 4096


@pytest.mark.parametrize(
    ("gpu", "least", "of_memory"),
    [
        # 9.47 MB take 26.3 us at 360 GB/s; 12.9 instructions for 16.8 million weights take 34.0 us.
        ("rtx-3060", "issue", 26.3 / 34.0),
        # 1.97 us at 4,800 GB/s; 6.47 us of issue, and 2.01 us of L1.
        ("h200", "issue", 1.97 / 6.47),
    ],
)
def test_the_least_limit_is_the_one_that_takes_longest(gpu: str, least: str, of_memory: float) -> None:
    found = predicted(CASE, (BUILD,), GPUS[gpu])
    assert [limit.name for limit in found.limits] == ["memory", "issue", "L1"]
    assert found.limits[0].pass_us == pytest.approx(BYTES / GPUS[gpu].bandwidth_gbs / 1000)
    assert (found.least.name, found.of_memory) == (least, pytest.approx(of_memory, rel=0.01))


def test_what_is_not_known_bounds_nothing() -> None:
    found = predicted(CASE, (replace(BUILD, instructions_per_weight=None),), GPUS["rtx-3060"])
    assert [limit.name for limit in found.limits] == ["memory", "L1"]
    assert (found.least.name, found.of_memory) == ("memory", 1.0)


def test_a_weight_of_q4_k_leaves_what_the_page_says() -> None:
    """11 lane-instructions on an RTX 3060 and 4.3 on an H200, within what clocks differ by."""
    for gpu, left in (("rtx-3060", 11.0), ("h200", 4.3)):
        sheet = GPUS[gpu]
        (issue,) = limits(Work(0, 256, 0, left), Board(int(sheet.sm[3:]), sheet.sms, sheet.boost_mhz))
        assert issue.pass_us == pytest.approx(144 / (sheet.bandwidth_gbs * 1000), rel=0.15)


def test_the_page_has_tables_of_kernels_that_there_are() -> None:
    """One that came later is missing until the page is written again, which takes NVRTC some minutes."""
    text = floor.PAGE.read_text(encoding="utf8")
    named = re.findall(r"^### (\S+/\S+), ", text, re.M)
    assert set(named) <= set(floor.kernels())
    assert {"matvec/block", "matvec/coalesced", "mul_mm/reference"} <= set(named)
    assert "Nothing ran." in text


def test_a_row_says_bytes_code_and_least_limit() -> None:
    parts = [(BUILD, predicted(CASE, (BUILD,), GPUS["rtx-3060"]))]
    assert floor.row(CASE, parts) == "| Q4_K | 9.47 | 12.9, 40, 100% | issue, 77% of the data sheet |"
    silent = replace(BUILD, instructions_per_weight=None)
    parts = [(silent, predicted(CASE, (silent,), GPUS["rtx-3060"]))]
    assert floor.row(CASE, parts).endswith("| memory, 100% of the data sheet; issue not known |")
