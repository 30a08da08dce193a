"""Figures out of the assembler's log, as NVRTC 12.9 and 13.5 write it."""

from __future__ import annotations

import pytest

from kernels.errors import FarmError
from workers.nvrtc import library
from workers.nvrtc.resources import Resources, of_entry

LOG = """nvrtc: warning: Architectures prior to '<compute/sm>_75' are deprecated
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_61'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24576 bytes smem, 368 bytes cmem[0]
ptxas info    : Compile time = 66.384 ms
ptxas info    : Compiling entry function 'second' for 'sm_61'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers
ptxas info    : Compile time = 6.4 ms
"""


@pytest.mark.parametrize(
    ("entry", "want"), [("first", Resources(255, 16, 12, 20, 24576)), ("second", Resources(32, 0, 0, 0, 0))]
)
def test_figures_are_the_entrys_own(entry: str, want: Resources) -> None:
    assert of_entry(LOG, entry) == want


def test_a_called_functions_frame_counts_too() -> None:
    called = "ptxas info    : Function properties for helper\n"
    called += "ptxas         .     40 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    log = LOG.replace("ptxas info    : Used 255", called + "ptxas info    : Used 255")
    assert of_entry(log, "first") == Resources(255, 40, 16, 24, 24576)


@pytest.mark.parametrize("log", ["", LOG, LOG.replace("registers", "things")])
def test_a_log_without_the_entry_is_an_error_of_the_farm(log: str) -> None:
    with pytest.raises(FarmError, match="says nothing of third"):
        of_entry(log.replace("'second'", "'third'") if "things" in log else log, "third")


def test_a_cleaned_log_has_no_times_and_no_empty_lines() -> None:
    assert "Compile time" not in library.clean(LOG)
    assert library.clean("\n a \n\0 \nb\n") == "a\nb"
    assert of_entry(library.clean(LOG), "first") == of_entry(LOG, "first")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("nvrtc: warning: old\nk.cu(1): error: no x\n1 error detected", "k.cu(1): error: no x"),
        ("ptxas info : 0\nptxas error   : too much shared data", "ptxas error   : too much shared data"),
        ("ptxas fatal   : aborted", "ptxas fatal   : aborted"),
        ("ptxas info : 0", ""),
    ],
)
def test_error_line_is_the_first_that_says_what_is_wrong(log: str, line: str) -> None:
    assert library.error_line(log) == line
