"""Marks in Markdown: found, damaged, or shown as code."""

from __future__ import annotations

import pytest

from farm.marked import exchanged, regions
from kernels.errors import UsageError

CELL = "<!-- farm:cell cpu/host/matvec/block/Q4_0 claims=host,exact -->PASS<!-- farm:end -->"


def test_regions_say_their_line_name_options_and_text() -> None:
    table = '<!-- farm:matrix device=cpu-* rows="matvec/* kind:Q4_0" -->\nold\n<!-- farm:end -->'
    matrix, cell = regions(f"# Title\n\n{table}\n\nIt is {CELL}.\n")
    assert (matrix.line, matrix.word, matrix.text) == (3, "matrix", "\nold\n")
    assert matrix.options == (("device", "cpu-*"), ("rows", "matvec/* kind:Q4_0"))
    assert (cell.line, cell.name, cell.claims) == (7, "cpu/host/matvec/block/Q4_0", ("host", "exact"))


@pytest.mark.parametrize(
    "text",
    [f"```\n{CELL}\n```\n", f"~~~md\n{CELL}\n~~~\n", f"Write `{CELL}`.\n", "<!-- help: farm run -->\n", ""],
)
def test_code_and_other_comments_are_no_marks(text: str) -> None:
    assert regions(text) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n<!-- farm:matrix -->\n", "2: farm:matrix without an end"),
        ("a\n\n<!-- farm:end -->", "3: farm:end without a region"),
        (f"<!-- farm:matrix -->\n{CELL}", "2: farm:cell inside the region of line 1"),
        ("\n<!-- farm:matrx --><!-- farm:end -->", "2: no region named 'farm:matrx'; there are farm:matrix"),
        ("<!-- farm:matrix colour=red --><!-- farm:end -->", "1: no option of farm:matrix named 'colour'"),
        ("<!-- farm:matrix cpu --><!-- farm:end -->", "1: farm:matrix takes only name=value and got 'cpu'"),
        ("<!-- farm:cell --><!-- farm:end -->", "1: farm:cell takes one cell, DEVICE/BACKEND"),
        ("<!-- farm:matrix rows='a --><!-- farm:end -->", "1: No closing quotation"),
        ("\n\n<!-- farm:matrix device=cpu\n-->", "3: a mark without --> on its line"),
    ],
)
def test_damage_is_named_with_its_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        regions(text)
    assert str(raised.value).startswith(says)


def test_only_the_text_of_a_region_is_exchanged() -> None:
    assert exchanged(f"a {CELL} b\n", lambda region: "FAIL") == f"a {CELL.replace('PASS', 'FAIL')} b\n"


def test_line_breaks_stay_of_their_kind() -> None:
    text = "a\r\n<!-- farm:matrix -->\r\nold\r\n<!-- farm:end -->\r\n"
    assert regions(text)[0].text == "\nold\n"
    assert exchanged(text, lambda region: "\nnew\n") == text.replace("old", "new")
