"""The matrix as HTML: what a cell looks like, what comes first, and that colour is never alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from farm.matrix import Row
from farm.web import grid, style
from kernels import registry
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.grids import BLOCK, BLOCK_DEFAULT, CPU, GPU, H200, capability, matrix_of

SM_90 = Device("sm_90", "sm_90", "compute 9.0", "sm_90")


def look(verdict: Verdict | None = Verdict.PASS, **changes: Any) -> str:
    found = [capability(verdict, **changes)] if verdict else []
    (cell,) = matrix_of(found).cells
    return grid.one_cell([cell])


@pytest.mark.parametrize(
    ("html", "want"),
    [
        (look(bound_ratio=0.1), "<td>P"),
        (look(bound_ratio=0.3), "<td i>P"),
        (look(bound_ratio=0.6), "<td j>P"),
        (look(bound_ratio=0.99), "<td k>P"),
        (look(bound_ratio=0.99, rungs=("host",)), "<td x>P"),
        (look(bound_ratio=None, rungs=()), "<td u>P"),
        (look(source="old"), "<td z>P~"),
        (look(Verdict.FAIL, source="old"), "<td y>F~"),
        (look(Verdict.PASS, flags=("flaky", "spills")), "<td j>P!"),
        (look(Verdict.FAIL), "<td f>F"),
        (look(Verdict.REJECT), "<td r>R"),
        (look(Verdict.SKIP), "<td s>S"),
        (look(None), "<td>"),
    ],
)
def test_a_cell_says_in_letters_what_it_shows(html: str, want: str) -> None:
    assert html == want


def test_every_verdict_has_a_letter_and_a_look_of_its_own() -> None:
    cells = {verdict: look(verdict) for verdict in Verdict}
    assert len(set(cells.values())) == len(Verdict) == 8
    assert len({html[-1] for html in cells.values()}) == len(Verdict)
    assert look(None) not in cells.values()


def test_builds_together_show_the_worst_that_ran_and_the_rungs_of_any() -> None:
    rows = [BLOCK, BLOCK_DEFAULT]
    good = [capability(bound_ratio=0.1), capability(row=BLOCK_DEFAULT, bound_ratio=0.6, rungs=("host",))]
    assert grid.one_cell(matrix_of(good, rows).cells) == "<td j>P"
    bad = [capability(), capability(Verdict.CRASH, row=BLOCK_DEFAULT)]
    assert grid.one_cell(matrix_of(bad, rows).cells) == "<td c>C"
    assert grid.one_cell(matrix_of([capability(bound_ratio=0.1)], rows).cells) == "<td>P"  # one never ran


def test_what_compiled_only_is_no_pass_of_a_board() -> None:
    matrix = matrix_of([capability(device=SM_90, backend="nvrtc", rungs=("builds",))], devices=(SM_90,))
    assert grid.one_cell(matrix.cells) == "<td b>B"
    assert "compiled only: nothing ran" in grid.table(matrix)


def test_a_cell_that_never_ran_shows_the_rungs_that_its_source_has_elsewhere() -> None:
    matrix = matrix_of([capability(device=CPU)], devices=(CPU, GPU))
    assert [grid.one_cell([cell]) for cell in matrix.cells] == ["<td j>P", "<td n>th"]


def test_kernels_that_ran_come_first_and_kinds_are_in_the_catalogs_order() -> None:
    rows = [Row("matvec", "never", "F32", "exact"), *(Row("matvec", "block", kind, "exact")
            for kind in ("F32", "IQ4_NL", "Q8_0", "Q4_0"))]  # fmt: skip
    text = grid.table(matrix_of([capability()], rows))
    assert re.findall(r"<span>([^<]*/[^<]*)</span>", text) == ["matvec/block", "matvec/never"]
    assert re.findall(r'data-at="matvec/block/(\w+)/exact"', text) == ["Q4_0", "Q8_0", "IQ4_NL", "F32"]


def test_columns_stand_under_what_they_are() -> None:
    matrix = matrix_of([capability()], devices=(CPU, SM_90), targets=[H200])
    text = grid.table(matrix)
    assert re.findall(r"<th colspan=(\d+)><span>(boards|compiled only|GPUs)", text) == [
        ("1", "boards"), ("1", "compiled only"), ("1", "GPUs"),
    ]  # fmt: skip
    assert re.findall(r'data-of="([^"]+)"', text) == ["cpu-x86_64/host", "sm_90/nvrtc", "h200/cuda"]


def test_boards_of_a_class_are_one_column() -> None:
    twin = Device("cpu-x86_64-bbbb", "cpu-x86_64", "Test CPU", "4567")
    found = [capability(), capability(Verdict.FAIL, device=twin)]
    assert grid.table(matrix_of(found, devices=(CPU, twin))).count("<td f>F") == 1


def test_a_matrix_of_200_classes_30_kinds_and_12_kernels_is_less_than_a_megabyte() -> None:
    kinds = [*registry.kinds(), *(f"{kind}+{kind}+Q6_K" for kind in registry.kinds())][:30]
    rows = [
        Row("mul_mat_id", f"coalesced_bf16_{number}", kind, "exact") for number in range(12) for kind in kinds
    ]
    boards = [
        replace(GPU, slug=f"rtx-pro-6000-{number}-aaaa", device_class=f"rtx-pro-6000-{number}")
        for number in range(200)
    ]
    found = [
        capability(list(Verdict)[(place + at) % 8], board, "cuda", row, "old" if place % 3 else "now")
        for place, row in enumerate(rows)
        for at, board in enumerate(boards)
    ]
    text = grid.table(matrix_of(found, rows, boards))
    assert text.count("<td") == 200 * 30 * 12
    assert len(f"{style.text()}{text}".encode()) < 1_000_000
