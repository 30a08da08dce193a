"""Tables for people: marks, tallies and lines, and no text that steers the terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from db import campaign
from db.campaign import CampaignRow
from db.job import PlannedCase, Target
from db.session import open_database
from farm.matrix import Matrix, Row
from farm.terminal import campaign_line, cells_line, duration, matrix_parts, print_summary, shown
from kernels import registry
from kernels.evidence import Rule, Verdict
from kernels.model import Device
from tests.farm.grids import BLOCK, BLOCK_DEFAULT, CPU, CPU_2, GPU, H200, RTX_3060, capability, matrix_of
from tests.farm.lines import case_of, database_with, line_of

ROW = CampaignRow(1, "{}", Rule.BOUND, 0, 0, 48_000_000, 0, 0, ((Verdict.PASS, 2460),))


def printed(matrix: Matrix) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120, markup=False)
    for part in matrix_parts(matrix):
        console.print(part)
    return out.getvalue()


def line_with(text: str, start: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line.split()


def test_a_table_has_kernels_down_and_kinds_across() -> None:
    q8 = BLOCK._replace(kind="Q8_0")
    other = BLOCK._replace(kernel="other")
    text = printed(matrix_of([capability(), capability(Verdict.FAIL, row=q8)], rows=[BLOCK, q8, other]))
    assert "cpu-x86_64/host, build exact: 1 FAIL, 1 PASS, 1 never run" in text
    assert line_with(text, "kernel") == ["kernel", "Q4_0", "Q8_0"]
    assert line_with(text, "matvec/block") == ["matvec/block", "PASS", "FAIL"]
    assert line_with(text, "matvec/other") == ["matvec/other", "·"]


def test_a_stale_cell_has_a_sign_and_the_legend_explains_it() -> None:
    text = printed(matrix_of([capability(source="old")]))
    assert line_with(text, "matvec/block") == ["matvec/block", "PASS~"]
    assert "1 PASS, 1 of them stale" in text
    assert "~     stale: the source has changed since" in text


def test_the_legend_has_the_marks_that_occur_and_who_acts() -> None:
    text = printed(matrix_of([capability(Verdict.CRASH)], rows=[BLOCK, BLOCK_DEFAULT]))
    assert line_with(text, "CRASH  it took")[-2:] == ["kernel", "author"]
    assert "· " in text
    assert "TIMEOUT" not in text


def test_ops_without_kinds_and_mixes_stand_below_the_table() -> None:
    norm, mix = Row("rmsnorm", "block", "F32", "exact"), Row("ffn", "block", "Q4_K+Q4_K+Q6_K", "exact")
    text = printed(matrix_of([capability(row=norm)], rows=[BLOCK, norm, mix]))
    assert line_with(text, "F32:") == ["F32:", "rmsnorm/block", "PASS"]
    assert line_with(text, "Q4_K+Q4_K+Q6_K:") == ["Q4_K+Q4_K+Q6_K:", "ffn/block", "·"]


def test_f32_is_a_column_where_it_is_a_kind_and_a_line_where_there_is_none() -> None:
    norm, matvec = Row("rmsnorm", "block", "F32", "exact"), Row("matvec", "block", "F32", "exact")
    text = printed(matrix_of([capability(row=norm)], rows=[BLOCK, matvec, norm]))
    assert line_with(text, "kernel ") == ["kernel", BLOCK.kind, "F32"]
    assert line_with(text, "matvec/block") == ["matvec/block", "·", "·"]
    assert line_with(text, "F32:") == ["F32:", "rmsnorm/block", "PASS"]
    assert text.count("rmsnorm/block") == 1


def test_each_build_has_a_table_of_its_own() -> None:
    text = printed(matrix_of([capability()], rows=[BLOCK, BLOCK_DEFAULT]))
    assert "build exact: 1 PASS\n" in text
    assert "build default: 1 never run\n" in text


def test_a_board_and_targets_where_nothing_ran_are_lines() -> None:
    text = printed(matrix_of([capability()], devices=[CPU, GPU], targets=[RTX_3060, H200]))
    assert "· rtx-3060/cuda: none of 1 cells was ever run" in text
    assert "· 1 GPUs that no board fills, 1 cells each never run: h200" in text


def test_a_class_of_several_boards_where_nothing_ran_is_no_target() -> None:
    text = printed(matrix_of([capability(backend="twin")], devices=[CPU, CPU_2], targets=[H200]))
    assert "· cpu-x86_64/host: none of 1 cells was ever run" in text
    assert "· 1 GPUs that no board fills, 1 cells each never run: h200" in text


def test_nothing_from_a_row_steers_the_terminal() -> None:
    assert shown("a\x1b[31mb\nc\x07").plain == "a\\x1b[31mb\\x0ac\\x07"
    assert "\x1b" not in printed(matrix_of([capability(row=BLOCK._replace(kernel="\x1b[2J"))]))
    assert "[bold]" in printed(matrix_of([capability(row=BLOCK._replace(kernel="[bold]"))]))


def test_a_campaign_is_one_line() -> None:
    assert campaign_line(ROW, now_us=0) == "campaign 1: 2,460 jobs in 48 s: 2,460 PASS"


def test_an_open_campaign_counts_what_it_owes_and_its_time_until_now() -> None:
    row = replace(ROW, closed_us=None, waiting=30, leased=10, verdicts=((Verdict.FAIL, 1),))
    assert campaign_line(row, now_us=200_000_000) == (
        "campaign 1: 41 jobs in 3 min 20 s: 1 FAIL, 40 still to run"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (7500, "2 h 5 min"), (864_000, "10 days")],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_cells_that_are_stale_count_as_neither_good_nor_bad() -> None:
    found = [capability(), capability(source="old", row=BLOCK_DEFAULT)]
    line = cells_line(matrix_of(found, rows=[BLOCK, BLOCK_DEFAULT]))
    assert line == "1 cells PASS, 0 bad, 1 stale, 0 never run on cpu-x86_64/host"


def test_a_summary_shows_where_the_campaign_ran_and_nothing_else(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of()])
    database = open_database(url)
    planned = [PlannedCase(case_of(), 1, "", "")]
    with database.writing() as s:
        targets = [Target("host", "cpu-x86_64")]
        made = campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=targets, now_us=0)
    out = io.StringIO()
    print_summary(database, made, Console(file=out, width=120))
    assert "build exact: 1 PASS" in out.getvalue()
    assert "h200" not in out.getvalue()
    assert "matvec/block" in out.getvalue()
    assert "matvec/coalesced" not in out.getvalue()
    others = len(registry.built_in()) - 1
    assert f"\n{others} other kernels have cells there; farm status shows them\n" in out.getvalue()
    last = out.getvalue().splitlines()[-1]
    assert last.startswith("campaign 1: 1 jobs in ")
    assert "1 still to run; 1 cells PASS, 0 bad, " in last
    assert last.endswith(" never run on cpu-x86_64/host")


def test_what_was_only_built_has_a_table_of_kernels_and_archs() -> None:
    archs = [Device(name, name, name, name) for name in ("sm_61", "sm_86", "sm_90")]
    q8 = BLOCK._replace(kind="Q8_0")
    found = [
        capability(row=row, device=arch, backend="nvrtc", rungs=("builds",))
        for row in (BLOCK, q8)
        for arch in archs[1:]
    ]
    found[0] = found[0]._replace(verdict=Verdict.REJECT, reason="no")
    found[1] = found[1]._replace(flags=("one-block", "spills"))
    text = printed(
        matrix_of([*found, capability(row=q8, device=archs[0], backend="nvrtc")], [BLOCK, q8], archs)
    )
    assert "nvrtc, build exact: 1 REJECT, 4 PASS, 1 never run" in text
    assert line_with(text, "kinds built")[-3:] == ["61", "86", "90"]
    assert line_with(text, "matvec/block") == ["matvec/block", "1", "1", "REJECT", "2|^"]
    assert line_with(text, "^  ")[-2:] == line_with(text, "|  ")[-2:] == ["kernel", "author"]


def test_targets_say_how_many_cells_compile_for_them() -> None:
    arch = Device("sm_90", "sm_90", "sm_90", "sm_90")
    built = capability(device=arch, backend="nvrtc", rungs=("builds",))
    text = printed(matrix_of([built], devices=[arch], targets=[RTX_3060, H200]))
    assert "2 GPUs that no board fills, 1 cells each never run: rtx-3060, h200 (1 build)" in text
