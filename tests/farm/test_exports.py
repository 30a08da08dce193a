"""Exports: everything that ran, nothing that didn't, whatever the names."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from db.sabotage import Score
from farm import exports
from farm.matrix import Matrix, Row, Sabotaged
from farm.narrow import Words, narrow
from kernels.errors import UnknownName
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.grids import BLOCK, BLOCK_DEFAULT, CPU, CPU_2, H200, NOW_US, RTX_3060, capability, matrix_of

KEYS = [
    "device_class", "device", "backend", "op", "kernel", "kind", "build", "verdict", "flags", "rungs",
    "cases", "positions", "bound_ratio", "relative_ratio", "nmse", "bit_exact", "source_digest", "last_run",
    "reason", "packing", "trust",
]  # fmt: skip


def render(name: str, matrix: Matrix) -> str:
    return exports.export(name).render(matrix)


def cells_of(matrix: Matrix) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(render("json", matrix))["cells"]
    return cells


def lines_of(matrix: Matrix) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render("csv", matrix), newline="")))


def row_of(markdown: str, start: str) -> list[str]:
    (line,) = [line for line in markdown.splitlines() if line.startswith(f"| {start}")]
    return [part.strip() for part in line.strip("|").split(" | ")]


def test_the_formats_are_the_files_of_the_folder() -> None:
    assert {"csv", "html", "json", "md", "ops-csv", "svg"} <= set(exports.names())
    assert [exports.found(name).name for name in exports.names()] == exports.names()


def test_an_unknown_format_names_those_there_are() -> None:
    with pytest.raises(UnknownName, match=f"no format named 'xml'; there are {', '.join(exports.names())}"):
        exports.export("xml")


def test_json_has_the_keys_of_the_schema_in_their_order() -> None:
    document = json.loads(render("json", matrix_of([capability()])))
    assert list(document) == [
        "schema", "generated_at", "catalog_digest", "cells", "sabotage", "min_trust", "left_out",
        "benchmarks",
    ]  # fmt: skip
    assert (document["schema"], document["catalog_digest"]) == (1, "c0ffee")
    assert document["generated_at"] == "2023-11-14T22:13:20Z"
    assert list(document["cells"][0]) == KEYS


def test_json_says_what_ran_and_null_for_what_did_not() -> None:
    ran, never = cells_of(matrix_of([capability()], targets=[H200]))
    assert (ran["verdict"], ran["cases"], ran["bit_exact"]) == ("PASS", 10, True)
    assert ran["last_run"] == "1970-01-01T00:00:01Z"
    assert (never["verdict"], never["device"], never["last_run"]) == (None, None, None)
    assert never["rungs"] == ["twin", "host"]


@pytest.mark.parametrize("figure", [math.inf, math.nan])
def test_json_has_null_for_a_figure_that_is_not_finite(figure: float) -> None:
    (cell,) = cells_of(matrix_of([capability(Verdict.FAIL, bound_ratio=figure, nmse=figure)]))
    assert (cell["bound_ratio"], cell["nmse"]) == (None, None)


SCORE = Score("matvec/block", "Q4_0", "s", 0, 21, 100, 98, (("bound", 90),), 85, 84, 1, 5, ("ENTRY:1:drop",))


@pytest.mark.parametrize("stale", [False, True])
def test_sabotage_is_in_json_and_markdown(stale: bool) -> None:
    matrix = replace(matrix_of([capability()]), sabotage=(Sabotaged(SCORE, stale),))
    (row,) = json.loads(render("json", matrix))["sabotage"]
    assert (row["killed"], row["survivors"], row["stale"]) == ({"bound": 90}, ["ENTRY:1:drop"], stale)
    (line,) = [line for line in render("md", matrix).splitlines() if "| Q4_0 | 98 |" in line]
    assert line.endswith(f"| 90 | 85 | 84 | 1 | 5 | 1 | 97.8%{' (stale)' if stale else ''} |")


def test_csv_has_a_line_per_cell_with_the_names_of_the_schema() -> None:
    ran, never = lines_of(matrix_of([capability(flags=("flaky",))], targets=[H200]))
    assert list(ran) == KEYS
    assert (ran["verdict"], ran["flags"], ran["rungs"]) == ("PASS", "flaky", "twin host exact")
    assert (ran["bit_exact"], ran["nmse"], ran["positions"]) == ("true", "1e-12", "100")
    assert (never["verdict"], never["bound_ratio"], never["bit_exact"]) == ("", "", "")


def test_csv_and_json_say_the_same_of_every_cell() -> None:
    rows = [BLOCK, BLOCK_DEFAULT]
    found = [capability(), capability(Verdict.FAIL, row=BLOCK_DEFAULT, source="old", bit_exact=False)]
    matrix = matrix_of(found, rows=rows, devices=[CPU, CPU_2], targets=[H200])
    pairs = list(zip(lines_of(matrix), cells_of(matrix), strict=True))
    assert len(pairs) == 6
    for line, cell in pairs:
        for key in ("device_class", "build", "verdict", "source_digest", "last_run"):
            assert line[key] == (cell[key] or "")
        assert line["flags"].split() == cell["flags"]
        assert (float(line["nmse"]) if line["nmse"] else None) == cell["nmse"]
        assert json.loads(line["bit_exact"] or "null") == cell["bit_exact"]


CPU_X = Device("cpu-arm-xxxx", "cpu-zarm", "Other CPU", "89")
HOSTILE = "=cmd|' /C calc'!A1, \"x\"\n<script>|*b*[l](u)`"


def hostile() -> Matrix:
    row = Row("matvec", HOSTILE, "Q4_0", "exact")
    board = Device(HOSTILE, f"cpu-{HOSTILE}", HOSTILE, "1")
    return matrix_of([capability(row=row, device=board, reason=HOSTILE)], rows=[row], devices=[board])


def test_json_keeps_a_hostile_name_as_it_is() -> None:
    assert cells_of(hostile())[0]["kernel"] == HOSTILE


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_csv_disarms_what_a_spreadsheet_would_calculate(start: str) -> None:
    (line,) = lines_of(matrix_of([capability(Verdict.FAIL, reason=f"{start}1+1")]))
    assert line["reason"] == f"'{start}1+1".replace("\r", " ")


def test_csv_keeps_a_hostile_name_in_its_field() -> None:
    (line,) = lines_of(hostile())
    assert line["kernel"] == f"'{HOSTILE}"


def test_markdown_shows_a_hostile_name_as_text_in_one_cell() -> None:
    text = render("md", hostile())
    (line,) = [line for line in text.splitlines() if line.startswith("| matvec/")]
    assert "<script>" not in text
    assert "&lt;script&gt;\\|\\*b\\*\\[l\\](u)\\`" in line
    header = next(line for line in text.splitlines() if line.startswith("| kernel"))
    assert line.replace("\\|", "").count("|") == header.replace("\\|", "").count("|")


def test_markdown_marks_verdicts_stale_and_never_run_differently() -> None:
    other, third = Row("matvec", "other", "Q4_0", "exact"), Row("matvec", "third", "Q4_0", "exact")
    found = [capability(), capability(Verdict.FAIL, row=other, source="old")]
    text = render("md", matrix_of(found, rows=[BLOCK, other, third]))
    assert row_of(text, "matvec/block")[-1] == "PASS"
    assert row_of(text, "matvec/other")[-1] == "**FAIL (stale)**"
    assert row_of(text, "matvec/third")[-1] == "·"
    assert "1 FAIL, 1 PASS, 1 of them stale, 1 never run. Builds: exact." in text


def test_markdown_says_which_build_a_mark_rests_on_when_the_other_never_ran() -> None:
    rows = [BLOCK, BLOCK_DEFAULT]
    half = render("md", matrix_of([capability()], rows=rows))
    both = render("md", matrix_of([capability(), capability(row=BLOCK_DEFAULT)], rows=rows))
    assert row_of(half, "matvec/block")[-1] == "PASS exact only"
    assert row_of(both, "matvec/block")[-1] == "PASS"


def test_markdown_has_one_column_per_class_and_the_worst_of_its_boards() -> None:
    found = [capability(), capability(Verdict.FAIL, device=CPU_2)]
    text = render("md", matrix_of(found, devices=[CPU, CPU_2]))
    assert row_of(text, "kernel") == ["kernel", "kind", "cpu-x86_64"]
    assert row_of(text, "matvec/block") == ["matvec/block", "Q4_0", "**FAIL**"]


def test_markdown_gives_gpus_a_table_of_their_own_without_a_verdict() -> None:
    text = render("md", matrix_of([capability()], targets=[RTX_3060, H200]))
    cuda = text.partition("## cuda")[2]
    assert row_of(cuda, "kernel") == ["kernel", "kind", "rungs without the device", "rtx-3060", "h200"]
    assert row_of(cuda, "matvec/block") == ["matvec/block", "Q4_0", "twin host", "·", "·"]


def test_markdown_ends_with_legend_devices_date_and_catalog() -> None:
    text = render("md", matrix_of([capability()], targets=[H200]))
    assert all(f"| {verdict} |" in text for verdict in Verdict)
    assert "| · | never run here" in text
    assert "- cpu-x86_64: Test CPU (cpu-x86_64-aaaa)" in text
    assert "Targets that no board fills yet: NVIDIA H200 (h200, sm_90)" in text
    assert text.rstrip().endswith("at 2023-11-14T22:13:20Z against catalog c0ffee.")


def test_markdown_says_that_a_build_is_no_run_and_marks_what_it_costs() -> None:
    arch = Device("sm_90", "sm_90", "sm_90 (NVRTC 12.9)", "sm_90")
    built = capability(device=arch, backend="nvrtc", rungs=("builds",), flags=("spills",))
    text = render("md", matrix_of([built], devices=[CPU, arch], targets=[RTX_3060, H200]))
    assert "## nvrtc\n\nNothing was run: PASS says here that the compiler built it" in text
    assert [line for line in text.splitlines() if line.startswith("| matvec/block")] == [
        "| matvec/block | Q4_0 | · |",
        "| matvec/block | Q4_0 | PASS (spills) |",
        "| matvec/block | Q4_0 | · | · (spills) builds |",
    ]


REFUSED = "rows 3 is not a multiple of 8"


def refused() -> Matrix:
    """A row that is refused, and one that ran on the other of two classes alone."""
    other = Row("matvec", "other", "Q4_0", "exact")
    found = [capability(Verdict.SKIP, reason=REFUSED), capability(row=other)]
    return matrix_of(found, rows=[BLOCK, other], targets=[H200])


def test_markdown_has_a_footnote_per_refusal_and_ends_each_table_with_legend_devices_and_date() -> None:
    text = render("md", refused())
    host = text.partition("## host")[2].partition("\n## ")[0]
    assert row_of(host, "matvec/block")[-1] == "SKIP<sup>1</sup>"
    assert host.count(f"<sup>1</sup> {REFUSED}") == 1
    assert "SKIP: refused: not this shape" in host
    assert "FAIL:" not in host  # no mark of this table
    assert "cpu-x86_64: Test CPU (cpu-x86_64-aaaa)." in host
    assert "written 2023-11-14T22:13:20Z against catalog c0ffee." in host


class Tags(HTMLParser):
    """What a browser would make of a text: elements with their attributes, and the text between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_html_is_one_file_without_script_or_address_of_another() -> None:
    text = render("html", refused())
    tags = Tags(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags.found}
    assert {attrs["href"] for tag, attrs in tags.found if "href" in attrs} == {"#n1"}
    assert not re.search(r"url\(|https?:|@import", text)


def test_html_says_what_the_table_of_the_web_says_and_what_belongs_under_it() -> None:
    tags = Tags(render("html", refused()))
    cells = [" ".join(attrs) for tag, attrs in tags.found if tag == "td"]
    said = " ".join(tags.said)
    assert (cells.count("s"), cells.count("j")) == (1, 1)  # a PASS at half its limit, bit for bit
    for part in (
        REFUSED,
        "S SKIP",
        "· never run",
        "h200: NVIDIA H200 (sm_90, no board yet)",
        "catalog c0ffee",
    ):
        assert part in " ".join(said.split()), part


def test_html_shows_a_hostile_name_as_text() -> None:
    tags = Tags(render("html", hostile()))
    assert "script" not in {tag for tag, _ in tags.found}
    assert sum("<script>|*b*[l](u)`" in said for said in tags.said) >= 3  # kernel, class, board
    assert {key for _, attrs in tags.found for key in attrs} <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "tabindex", "id", "data-at", "data-of",
        "title", "href", "colspan", "j",
    }  # fmt: skip


def svg_of(matrix: Matrix) -> ElementTree.Element:
    return ElementTree.fromstring(render("svg", matrix))


def words_of(drawing: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in drawing.iter("{http://www.w3.org/2000/svg}text")]


def test_svg_says_in_letters_what_it_says_in_colours() -> None:
    other = Row("matvec", "other", "Q4_0", "exact")
    found = [capability(Verdict.FAIL, source="old"), capability(row=other)]
    drawing = svg_of(matrix_of(found, rows=[BLOCK, other], targets=[H200]))
    squares = list(drawing.iter("{http://www.w3.org/2000/svg}g"))
    tips = {group[0].text: (group[2].text, group[1].get("fill")) for group in squares}
    assert tips == {
        "cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact: FAIL": ("F~", "url(#stale)"),
        "cpu-x86_64-aaaa/host/matvec/other/Q4_0/exact: PASS": ("P", "#86c49b"),
        "h200/cuda/matvec/block/Q4_0/exact: never run": ("·", "#ffffff"),
        "h200/cuda/matvec/other/Q4_0/exact: never run": ("·", "#ffffff"),
    }
    words = words_of(drawing)
    assert all(any(word.startswith(f"{sign} ") for word in words) for sign in "PFCTRELS·")
    assert any("Ran 1970" in word and "catalog c0ffee" in word for word in words)


def test_svg_numbers_refusals_and_keeps_a_hostile_name_as_text() -> None:
    assert f"1 {REFUSED}" in words_of(svg_of(refused()))
    row = Row("matvec", HOSTILE + "\x00", "Q4_0", "exact")
    drawing = svg_of(matrix_of([capability(row=row, reason=HOSTILE)], rows=[row]))
    assert any("<script>" in word for word in words_of(drawing))
    assert not list(drawing.iter("{http://www.w3.org/2000/svg}script"))


def ops_lines(matrix: Matrix) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render("ops-csv", matrix), newline="")))


def test_ops_csv_has_the_columns_of_llama_cpp_and_a_line_per_cell_that_ran() -> None:
    old = Row("mul_mat_id", "block", "Q4_K+Q4_K+Q6_K", "exact")
    found = [capability(), capability(row=old, source="old")]
    passed, stale = ops_lines(matrix_of(found, rows=[BLOCK, old], targets=[H200]))
    assert list(passed) == [
        "backend_name", "op_name", "op_params", "test_mode", "supported", "error_message", "backend_reg_name",
    ]  # fmt: skip
    assert list(passed.values()) == [
        "cpu-x86_64-aaaa", "MUL_MAT", "type_a=q4_0,kernel=block,build=exact,cases=10", "support", "1", "yes",
        "cpu-x86_64/host",
    ]  # fmt: skip
    assert (stale["op_name"], stale["supported"], stale["error_message"]) == ("MUL_MAT_ID", "0", "no")
    assert "type_a=q4_K+q4_K+q6_K," in stale["op_params"]


def test_ops_csv_keeps_a_hostile_name_on_one_line() -> None:
    (line,) = ops_lines(hostile())
    assert line["backend_name"].startswith("'=cmd|")
    assert render("ops-csv", hostile()).count("\n") == 2


def test_a_cell_that_was_cut_is_blank_and_never_marked_as_never_run() -> None:
    other = Row("matvec", "other", "Q4_0", "exact")
    found = [capability(last_run_us=NOW_US), capability(row=other, device=CPU_X, last_run_us=NOW_US)]
    whole = matrix_of(found, rows=[BLOCK, other], devices=[CPU, CPU_X])
    cut = narrow(whole, Words(since="1d"))
    marked = [render("html", one).partition("</table>")[0].count("<td>·") for one in (whole, cut)]
    assert marked == [2, 0]
    assert {group[2].text for group in svg_of(cut).iter("{http://www.w3.org/2000/svg}g")} == {"P"}
    assert row_of(render("md", cut).partition("## Legend")[0], "matvec/other") == [
        "matvec/other",
        "Q4_0",
        "",
        "PASS",
    ]
    assert "blank: not part of this table" in render("md", cut)
