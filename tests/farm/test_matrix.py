"""The pivot: what ran is shown as it ran, what never ran as never run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from db.cell import Capability
from farm.matrix import Cell, Claim, Matrix, Row, merge
from farm.pivot import pivot
from kernels.errors import UsageError
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.grids import (
    BLOCK,
    BLOCK_DEFAULT,
    CPU,
    CPU_2,
    GPU,
    H200,
    NOW_US,
    RTX_3060,
    capability,
    matrix_of,
)


def only(matrix: Matrix) -> Cell:
    (cell,) = matrix.cells
    return cell


def test_a_cell_shows_its_capability_number_for_number() -> None:
    cell = only(matrix_of([capability(Verdict.FAIL, reason="element 3", bound_ratio=7.5)]))
    assert (cell.verdict, cell.reason, cell.bound_ratio) == (Verdict.FAIL, "element 3", 7.5)
    assert (cell.cases, cell.positions, cell.last_run_us) == (10, 100, 1_000_000)
    assert cell.flags == ()
    assert cell.name == "cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact"


def test_a_cell_that_never_ran_has_no_verdict_and_no_figure() -> None:
    cell = only(matrix_of([]))
    assert cell.verdict is None
    assert (cell.cases, cell.positions, cell.bound_ratio, cell.bit_exact) == (0, 0, None, None)
    assert (cell.last_run_us, cell.rungs, cell.flags) == (None, (), ())


def test_a_changed_source_shows_the_newest_old_verdict_as_stale() -> None:
    old = capability(Verdict.PASS, source="older", last_run_us=1)
    newer = capability(Verdict.FAIL, source="old", last_run_us=2)
    cell = only(matrix_of([newer, old]))
    assert (cell.verdict, cell.flags, cell.source_digest) == (Verdict.FAIL, ("stale",), "old")


def test_evidence_of_the_present_source_hides_any_other_however_new() -> None:
    cell = only(matrix_of([capability(source="old", last_run_us=9), capability(Verdict.FAIL, last_run_us=1)]))
    assert (cell.verdict, cell.flags, cell.source_digest) == (Verdict.FAIL, (), "now")


def test_stale_stands_beside_the_flags_of_the_evidence() -> None:
    assert only(matrix_of([capability(source="old", flags=("flaky",))])).flags == ("flaky", "stale")


def test_evidence_of_a_kernel_that_the_catalog_lost_is_shown_as_stale() -> None:
    gone = Row("matvec", "gone", "Q4_0", "exact")
    listed, stray = matrix_of([capability(row=gone)]).cells
    assert (listed.kernel, listed.verdict) == ("block", None)
    assert (stray.kernel, stray.verdict, stray.flags) == ("gone", Verdict.PASS, ("stale",))


def test_an_unlisted_claim_has_cells_only_where_it_ran() -> None:
    check = Row("matvec", "block", "Q4_0", "check")
    claims = [Claim(BLOCK, "now"), Claim(check, "now", listed=False)]
    matrix = pivot([capability(row=check)], claims, [CPU, CPU_2], [], "", NOW_US)
    assert [(cell.device, cell.flags) for cell in matrix.cells if cell.build == "check"] == [(CPU.slug, ())]


def test_a_target_is_a_cuda_column_until_a_board_fills_it() -> None:
    empty = matrix_of([], targets=[RTX_3060, H200])
    assert [(c.device_class, c.device, c.backend) for c in empty.cells] == [
        ("cpu-x86_64", CPU.slug, "host"),
        ("rtx-3060", None, "cuda"),
        ("h200", None, "cuda"),
    ]
    filled = matrix_of([], devices=[CPU, GPU], targets=[RTX_3060, H200])
    assert [(c.device_class, c.device) for c in filled.cells[1:]] == [("rtx-3060", GPU.slug), ("h200", None)]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_evidence_of_a_cpu_never_fills_a_gpu_cell(verdict: Verdict) -> None:
    _, gpu = matrix_of([capability(verdict)], targets=[H200]).cells
    assert (gpu.verdict, gpu.cases, gpu.last_run_us) == (None, 0, None)


def test_a_gpu_cell_wears_what_a_cpu_showed_about_the_same_source_and_build() -> None:
    matrix = matrix_of([capability()], rows=[BLOCK, BLOCK_DEFAULT], targets=[H200])
    assert [cell.rungs for cell in matrix.cells if cell.backend == "cuda"] == [("twin", "host"), ()]


def test_a_gpu_cell_wears_no_rung_of_another_source() -> None:
    assert matrix_of([capability(source="old")], targets=[H200]).cells[1].rungs == ()


def test_a_rung_that_cpus_disagree_about_is_not_worn() -> None:
    found = [capability(), capability(Verdict.FAIL, device=CPU_2, rungs=("twin",))]
    assert matrix_of(found, devices=[CPU, CPU_2], targets=[H200]).cells[-1].rungs == ("twin",)


def test_a_cpu_that_only_had_trouble_takes_no_rung_away() -> None:
    found = [capability(), capability(Verdict.LOST, device=CPU_2, rungs=())]
    assert matrix_of(found, devices=[CPU, CPU_2], targets=[H200]).cells[-1].rungs == ("twin", "host")


def test_a_cubin_counts_for_its_own_architecture() -> None:
    arch = Device("sm_90", "sm_90", "NVRTC", "")
    built = capability(device=arch, backend="nvrtc", rungs=("builds",))
    matrix = matrix_of([built], devices=[arch], targets=[RTX_3060, H200])
    assert {cell.device_class: cell.rungs for cell in matrix.cells[1:]} == {
        "rtx-3060": (),
        "h200": ("builds",),
    }


def test_twin_has_cells_only_once_it_ran() -> None:
    assert {cell.backend for cell in matrix_of([capability()]).cells} == {"host"}
    assert {cell.backend for cell in matrix_of([capability(backend="twin")]).cells} == {"host", "twin"}


def test_a_class_shows_the_worst_of_two_boards() -> None:
    found = [capability(), capability(Verdict.CRASH, device=CPU_2, bound_ratio=None, reason="died")]
    matrix = matrix_of(found, devices=[CPU, CPU_2]).by_class()
    cell = only(matrix)
    assert (cell.verdict, cell.reason, cell.device) == (Verdict.CRASH, "died", None)
    assert (cell.cases, cell.positions, cell.bound_ratio) == (20, 200, 0.5)
    assert [(column.device_class, column.device) for column in matrix.columns] == [("cpu-x86_64", "")]


def test_a_board_that_never_ran_takes_nothing_from_its_class() -> None:
    cell = only(matrix_of([capability()], devices=[CPU, CPU_2]).by_class())
    assert (cell.verdict, cell.device, cell.cases) == (Verdict.PASS, CPU.slug, 10)


def test_a_suspect_board_does_not_speak_for_its_class() -> None:
    found = [capability(), capability(Verdict.FAIL, device=CPU_2, flags=("suspect",))]
    assert only(matrix_of(found, devices=[CPU, CPU_2]).by_class()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("exact", "default", "merged"),
    [
        (Verdict.PASS, Verdict.FAIL, Verdict.FAIL),
        (Verdict.FAIL, Verdict.CRASH, Verdict.FAIL),
        (Verdict.ERROR, Verdict.REJECT, Verdict.REJECT),
        (Verdict.PASS, Verdict.LOST, Verdict.LOST),
        (Verdict.SKIP, Verdict.PASS, Verdict.PASS),
        (Verdict.SKIP, Verdict.SKIP, Verdict.SKIP),
    ],
)
def test_builds_together_show_the_worst_and_skip_only_if_all_skip(
    exact: Verdict, default: Verdict, merged: Verdict
) -> None:
    found = [capability(exact), capability(default, row=BLOCK_DEFAULT)]
    cell = only(matrix_of(found, rows=[BLOCK, BLOCK_DEFAULT]).across_builds())
    assert (cell.verdict, cell.build) == (merged, "exact+default")


def test_builds_together_name_the_one_that_ran() -> None:
    cell = only(matrix_of([capability()], rows=[BLOCK, BLOCK_DEFAULT]).across_builds())
    assert (cell.verdict, cell.build) == (Verdict.PASS, "exact")


def test_builds_that_never_ran_stay_never_run_together() -> None:
    cell = only(matrix_of([], rows=[BLOCK, BLOCK_DEFAULT]).across_builds())
    assert (cell.verdict, cell.cases, cell.last_run_us) == (None, 0, None)


def test_what_a_cpus_library_showed_is_no_rung_of_a_gpu_nor_of_a_text() -> None:
    found = [capability(rungs=("twin", "host"))]
    claims = [Claim(BLOCK, "now", library=True)]
    cells = pivot(found, claims, [CPU], [H200], "c0ffee", NOW_US).cells
    assert [cell.rungs for cell in cells] == [("twin",), ("twin",)]
    assert [cell.verdict for cell in cells] == [Verdict.PASS, None]


def test_merging_keeps_every_flag_and_only_shared_rungs() -> None:
    fine = only(matrix_of([capability()]))
    stale = replace(fine, flags=("stale",), rungs=("twin",), bit_exact=False)
    cell = merge([fine, stale])
    assert (cell.flags, cell.rungs, cell.bit_exact) == (("stale",), ("twin",), False)


@pytest.mark.parametrize("glob", ["cpu-*", "CPU-X86_64", "test c*", "0123", "*-aaaa"])
def test_a_glob_matches_class_board_name_and_uuid(glob: str) -> None:
    matrix = matrix_of([], devices=[CPU, GPU]).of_device(glob)
    assert [cell.device for cell in matrix.cells] == [CPU.slug]
    assert [column.device for column in matrix.columns] == [CPU.slug]


def test_a_glob_that_matches_nothing_names_the_classes() -> None:
    with pytest.raises(UsageError, match=r"no device matches 'tpu\*'; there are cpu-x86_64, rtx-3060"):
        matrix_of([], devices=[CPU, GPU]).of_device("tpu*")


def test_a_build_is_selected_by_name() -> None:
    matrix = matrix_of([], rows=[BLOCK, BLOCK_DEFAULT]).of_build("default")
    assert [cell.build for cell in matrix.cells] == ["default"]


SM_86, SM_90 = (Device(name, name, f"{name} (NVRTC)", name) for name in ("sm_86", "sm_90"))


def built(device: Device = SM_86, **changes: Any) -> Capability:
    """What the compiler made of a source for an architecture."""
    return capability(
        device=device, backend="nvrtc", **{"rungs": ("builds",), "build_digest": "same"} | changes
    )


def gpu_cell(*found: Capability) -> Cell:
    return only(matrix_of(found, devices=[CPU, GPU]).of_device(GPU.slug))


def test_a_gpu_without_a_verdict_wears_what_its_build_says() -> None:
    cell = gpu_cell(built(flags=("one-block", "spills")))
    assert (cell.verdict, cell.rungs, cell.flags) == (None, ("builds",), ("one-block", "spills"))
    assert gpu_cell(built(SM_90, flags=("spills",))).flags == ()
    assert gpu_cell(built(source="old", flags=("spills",))).flags == ()


def test_a_refused_build_gives_a_gpu_no_rung_and_no_verdict_but_the_compilers_line() -> None:
    cell = gpu_cell(built(verdict=Verdict.REJECT, rungs=(), reason="error: f16x2"))
    assert (cell.verdict, cell.rungs, cell.reason) == (None, (), "nvrtc, sm_86: error: f16x2")


def test_a_gpu_verdict_of_an_older_source_is_fresh_when_the_code_is_the_same() -> None:
    ran = capability(device=GPU, backend="cuda", source="old", build_digest="same", reason="fine")
    assert gpu_cell(ran).flags == ("stale",)
    cell = gpu_cell(ran, built())
    assert (cell.verdict, cell.flags, cell.source_digest) == (Verdict.PASS, (), "old")
    assert cell.reason.startswith("fine; the source is now since, and compiles to the same code for sm_86")


@pytest.mark.parametrize(
    "other",
    [
        built(build_digest="another"),
        built(build_digest=""),
        built(SM_90),
        built(source="old"),
        built(verdict=Verdict.REJECT),
        built(row=BLOCK_DEFAULT),
    ],
)
def test_a_gpu_verdict_of_an_older_source_is_stale_otherwise(other: Capability) -> None:
    ran = capability(device=GPU, backend="cuda", source="old", build_digest="same")
    assert gpu_cell(ran, other).flags == ("stale",)


def test_a_cpu_verdict_is_stale_whatever_the_compiler_made() -> None:
    ran = capability(source="old", build_digest="same")
    assert only(matrix_of([ran, built()]).of_device(CPU.slug)).flags == ("stale",)
