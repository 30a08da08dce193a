"""Backends that run nothing: their jobs, how their boards take turns, what is said of a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from db.job import JobRow, Target, jobs_of
from db.session import Database
from farm import build_text
from farm.campaign import Order, keep, one_per_source, plan, submit, target, targets_here
from farm.lacking import Only
from farm.terminal import cells_line
from kernels import codec, source
from kernels.built import BuildRecord
from kernels.catalog import Selection
from kernels.model import Build, Device
from tests.farm.conftest import DEVICE, SMALL
from tests.farm.grids import CPU, capability, matrix_of
from workers.backend import Unavailable
from workers.boards import Board, executes, waves
from workers.nvrtc import library

SM_86, SM_90 = (Device(name, name, f"{name} (NVRTC)", name) for name in ("sm_86", "sm_90"))
RUNS, COMPILES = Board(DEVICE, ("twin",)), Board(SM_86, ("nvrtc",))
MADE = BuildRecord(
    "a/b", "", "k", "sm_86", 256, 40, 0, 0, 0, 24576, 0, 3, 0.5, "registers", "c" * 64, 14176, ""
)


def jobs(database: Database, order: Order, *boards: Board) -> tuple[JobRow, ...]:
    made = submit(database, order, plan(order), boards, now_us=1)
    with database.reading() as s:
        found = jobs_of(s, made.campaign_id)
    assert len(found) == made.jobs
    return found


def test_a_build_is_one_job_per_source_and_makes_no_inputs(database: Database) -> None:
    found = jobs(database, Order(SMALL, ("nvrtc",)), COMPILES, Board(SM_90, ("nvrtc",)))
    assert sorted((job.device_class, job.case.build) for job in found) == [
        ("sm_86", "default"), ("sm_86", "exact"), ("sm_90", "default"), ("sm_90", "exact"),
    ]  # fmt: skip
    assert {job.inputs_digest for job in found} == {""}


def test_a_campaign_that_runs_too_has_all_its_cases_and_one_build_per_source(database: Database) -> None:
    found = jobs(database, Order(SMALL, ("twin", "nvrtc")), RUNS, COMPILES)
    assert [job.backend for job in found].count("twin") == 6
    assert [job.backend for job in found].count("nvrtc") == 2
    assert all(job.inputs_digest for job in found)


def test_a_refused_case_is_not_the_one_that_is_built() -> None:
    order = Order(Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=("8x48", "8x64")), ("nvrtc",))
    planned = plan(order).planned
    assert {str(item.case.shape) for item in one_per_source(planned)} == {"8x64"}
    refused = [item for item in planned if str(item.case.shape) == "8x48"]
    assert len(one_per_source(refused)) == 2  # one a build: there is no other


def test_targets_know_whether_anything_runs() -> None:
    assert target("nvrtc", SM_86).per_source
    assert not target("host", DEVICE).per_source
    selection = codec.canonical(Order(SMALL, ("nvrtc",), "sm_8*"))
    assert targets_here(selection, SM_86, ("nvrtc",)) == [target("nvrtc", SM_86)]
    assert targets_here(selection, SM_90, ("nvrtc",)) == []


def test_architectures_take_turns_behind_the_boards_that_run() -> None:
    other = Board(SM_90, ("nvrtc",))
    both = Board(CPU, ("host", "twin"))
    assert waves([COMPILES, RUNS, other, both]) == [(RUNS, both), (COMPILES,), (other,)]
    assert waves([COMPILES]) == [(COMPILES,)]
    assert waves([]) == []


@pytest.mark.parametrize(("name", "yes"), [("host", True), ("twin", True), ("nvrtc", False)])
def test_executes(name: str, yes: bool) -> None:
    assert executes(name) == yes


def test_without_the_compiler_a_submit_names_the_extra(
    farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise Unavailable("nvrtc is unavailable because it isn't here; ./run pip install -e '.[nvrtc]'")

    monkeypatch.setattr(library, "find", missing)
    result = farm("submit", "--all-kinds", "--backend", "nvrtc", "--local")
    assert result.exit_code == 1
    assert "./run pip install -e '.[nvrtc]'" in result.output
    assert "Traceback" not in result.output


def test_an_output_of_what_never_ran_is_refused(
    farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "find", lambda: library.Nvrtc((12, 9), (86,)))
    result = farm("run", "matvec/block", "Q4_0", "8x64", "--backend", "nvrtc", "--output", "y.npy")
    assert result.exit_code == 2
    assert "nvrtc runs nothing, so there is no output; leave --output out" in result.output


def test_what_a_build_says_of_itself() -> None:
    first, second, _, last = build_text.lines(MADE)
    assert first == "k for sm_86: 40 registers, 24576+0 shared bytes, no spills"
    assert second == "occupancy 50%: 3 blocks of 256 threads an SM, limited by registers"
    assert last == "cubin 14,176 bytes, code cccccccccccc"
    spilled = replace(MADE, spill_store_bytes=8, spill_load_bytes=12, stack_bytes=16, blocks_per_sm=1)
    assert "16 stack bytes, 8+12 bytes spilled (stores+loads)" in build_text.takes(spilled)
    assert "1 block of 256" in build_text.fits(spilled)
    unknown = replace(MADE, blocks_per_sm=0, limited_by="")
    assert build_text.fits(unknown) == "occupancy: the limits of sm_86 aren't known"
    assert "0 blocks of 256" in build_text.fits(replace(MADE, blocks_per_sm=0))
    larger = replace(MADE, most_dynamic_shared_bytes=36864, least_blocks_per_sm=1)
    assert build_text.fits(larger).endswith("by registers; 1 block where a case takes 36864 dynamic bytes")


def test_what_a_disassembly_says_or_why_there_is_none() -> None:
    read = replace(MADE, instructions=180, loads=(("8", 10), ("32", 9)), disassembler="nvdisasm 13")
    assert build_text.code(read) == "180 instructions; global loads: 10 of 8 bits, 9 of 32 bits (nvdisasm 13)"
    assert "180 instructions, 15 a weight" in build_text.code(replace(read, instructions_per_weight=15.0))
    assert build_text.code(replace(MADE, disassembler="no disassembler")) == "no disassembler"


def test_architectures_share_one_part_of_a_campaigns_last_line() -> None:
    archs = [SM_86, SM_90]
    found = [capability(device=arch, backend="nvrtc") for arch in archs]
    assert cells_line(matrix_of(found, devices=archs)) == "2 cells PASS, 0 bad, 0 never run on 2 archs/nvrtc"
    assert cells_line(matrix_of(found[:1], devices=archs[:1])).endswith("never run on sm_86/nvrtc")


@pytest.mark.slow
def test_a_campaign_of_builds_from_the_command_line(farm: Callable[..., Result], tmp_path: Path) -> None:
    try:
        library.find()
    except Unavailable as why:
        pytest.skip(str(why))
    words = ("--kernel", "matvec/coalesced", "--kind", "Q4_0", "--backend", "nvrtc", "--device", "sm_8[69]")
    result = farm("submit", *words, "--local")
    assert result.exit_code == 0, result.output
    assert "2 archs/nvrtc" in result.stdout
    shown = farm("show", "sm_86/nvrtc/matvec/coalesced/Q4_0/exact").stdout
    assert "occupancy 100%" in shown
    assert "--backend nvrtc --device sm_86" in shown
    again = farm("submit", *words, "--only", "never", "--local")
    assert again.exit_code == 1
    assert list((tmp_path / ".farm" / "cache" / "nvrtc").glob("*.cubin"))


GPU = Target("cuda", "rtx-3060")
BOARD = Device("rtx-3060-cccc", "rtx-3060", "NVIDIA RTX 3060", "GPU-89ab", fingerprint=(("sm", "sm_86"),))


def stale_cases(build_digest: str, target: Target = GPU) -> int:
    """How many cases `--only stale` keeps: an older source passed, today's compiled to this code."""
    (planned, *_) = plan(Order(replace(SMALL, builds=(Build.EXACT,)), ("cuda",))).planned
    now = source.digest("matvec/block", ("Q4_0",), Build.EXACT)
    ran = capability(device=BOARD, backend=target.backend, source="old", build_digest="same")
    built = capability(device=SM_86, backend="nvrtc", source=now, build_digest=build_digest)
    return len(keep((planned,), Only.STALE, [target], [ran, built], {"rtx-3060": "sm_86"}))


def test_the_same_code_is_not_run_again_as_stale() -> None:
    assert stale_cases("same") == 0
    assert stale_cases("another") == 1
    assert stale_cases("") == 1
    assert stale_cases("same", Target("host", "rtx-3060")) == 1
