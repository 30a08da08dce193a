"""A grid in a wide terminal and in narrow ones."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from farm.grid import Grid


def printed(grid: Grid, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(grid)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.fixture
def grid() -> Grid:
    made = Grid("kernel", ["Q2_K", "Q4_0", "IQ4_NL"])
    made.add_row(Text("matvec/coalesced"), Text("PASS"), Text("FAIL"), Text("·"))
    made.add_row(Text("ffn/block"), Text("PASS"), Text("TIMEOUT"), Text("PASS"))
    return made


def test_one_table_where_all_columns_fit(grid: Grid) -> None:
    assert printed(grid, 39) == [
        "kernel            Q2_K  Q4_0     IQ4_NL",
        "matvec/coalesced  PASS  FAIL     ·",
        "ffn/block         PASS  TIMEOUT  PASS",
    ]


def test_columns_go_on_below_where_one_is_too_many(grid: Grid) -> None:
    assert printed(grid, 38) == [
        "kernel            Q2_K  Q4_0",
        "matvec/coalesced  PASS  FAIL",
        "ffn/block         PASS  TIMEOUT",
        "kernel            IQ4_NL",
        "matvec/coalesced  ·",
        "ffn/block         PASS",
    ]


@pytest.mark.parametrize("width", range(25, 45))
def test_every_mark_is_whole_at_any_width(grid: Grid, width: int) -> None:
    lines = printed(grid, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert [words.count(word) for word in ("PASS", "TIMEOUT", "FAIL", "·", "IQ4_NL")] == [3, 1, 1, 1, 1]
    assert words.count("matvec/coalesced") == words.count("kernel")


def test_a_grid_without_rows_is_its_header() -> None:
    assert printed(Grid("kernel", ["Q2_K"]), 40) == ["kernel  Q2_K"]
