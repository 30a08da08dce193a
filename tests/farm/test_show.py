"""farm show: from a verdict down to the bytes, and the command that runs it alone."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from db import campaign, outcome, queue
from db.epoch import raise_epoch
from db.job import PlannedCase, Target
from db.session import open_database
from farm import one_case_text
from farm.cli import main
from farm.dossier import fields_of
from kernels import codec
from kernels.evidence import Rule, Verdict
from kernels.model import Build, Case
from tests.farm.grids import CPU, CPU_2
from tests.farm.lines import BLOCK_HEX, case_of, database_with, line_of

CELL = "cpu-x86_64/host/matvec/block/Q4_0"


def show(url: str, *args: str) -> Result:
    return CliRunner().invoke(main, ["show", "--db", url, *args])


def found(url: str, *args: str) -> dict[str, Any]:
    (only,) = json.loads(show(url, "--json", *args).stdout)["found"]
    result: dict[str, Any] = only
    return result


@pytest.fixture
def failed(tmp_path: Path) -> str:
    return database_with(tmp_path, [line_of(Verdict.FAIL), line_of(case=case_of(rows=5))])


def test_a_failed_cell_shows_verdict_worst_element_and_cases(failed: str) -> None:
    text = show(failed, f"{CELL}/exact").stdout
    assert "verdict      FAIL\n" in text
    assert "reason       1 of 3 elements outside the bound\n" in text
    assert "out[2] of launch 0, matvec/block: got 5, want 1, twin 1.25, limit 0.5\n" in text
    assert "cases        1 FAIL, 1 PASS\n" in text
    assert "3 positions by oracle, 1 outside the bound" in text


def test_a_failed_cell_shows_the_block_field_by_field(failed: str) -> None:
    text = show(failed, f"{CELL}/exact").stdout
    assert "             d           0  00 3c\n" in text
    assert "             qs          2  00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff\n" in text


def test_a_librarys_call_shows_which_library_and_no_grid(tmp_path: Path) -> None:
    line = line_of(Verdict.FAIL)
    (record,) = line.launches
    called = replace(record, entry="gemm", grid=(0, 0, 0), block=(0, 0, 0), library="blas 1.2 (numpy 3.4)")
    text = show(database_with(tmp_path, [replace(line, launches=(called,))]), f"{CELL}/exact").stdout
    assert "launch       gemm by blas 1.2 (numpy 3.4), 42 µs\n" in text
    assert "grid" not in text


def test_a_failed_cell_shows_launch_compiler_flags_and_digests(failed: str) -> None:
    text = show(failed, f"{CELL}/exact").stdout
    assert "matvec_block_q4_0: grid 3x1x1, block 256x1x1, shared 0 + 1024 B, 42 µs, ab12\n" in text
    assert "compiler     g++ 12.2.0\n" in text
    assert "flags        -O2 -ffp-contract=off\n" in text
    assert f"inputs       {'1' * 64}\n" in text
    assert "versions     farm 0.1.0, numpy 2.4.0\n" in text


def test_scalars_of_the_case_are_shown_and_none_where_there_are_none(tmp_path: Path, failed: str) -> None:
    (tmp_path / "scaled").mkdir()
    scaled = replace(case_of(rows=5), scalars=(("weights_scale", 0.0013000000035390258),))
    url = database_with(tmp_path / "scaled", [line_of(case=scaled)])
    assert "scalars      weights_scale 0.0013\n" in show(url, CELL).stdout
    assert found(url, CELL)["evidence"]["case"]["scalars"] == [["weights_scale", 0.0013000000035390258]]
    assert "scalars" not in show(failed, CELL).stdout.replace('"scalars"', "")


def test_the_command_holds_the_case_exactly(failed: str) -> None:
    words = shlex.split(found(failed, f"{CELL}/exact")["command"])
    assert words[:3] == ["farm", "run", "--case"]
    assert codec.decode(Case, json.loads(words[3])) == case_of()
    assert words[4:] == ["--backend", "host"]


def test_json_has_cell_evidence_block_and_cases(failed: str) -> None:
    shown = found(failed, f"{CELL}/exact")
    assert (shown["cell"]["verdict"], shown["cases"]) == ("FAIL", {"FAIL": 1, "PASS": 1})
    assert shown["evidence"]["comparison"]["worst"]["got"] == 5.0
    assert shown["block"]["kind"] == "Q4_0"
    assert shown["block"]["fields"][0] == {"name": "d", "offset": 0, "hex": "003c"}
    assert shown["stale"] is False


def test_source_gives_the_text_that_ran(failed: str) -> None:
    assert "#define ENTRY matvec_block_q4_0" in show(failed, f"{CELL}/exact", "--source").stdout
    (text,) = found(failed, f"{CELL}/exact")["sources"]
    assert (text["kernel"], text["kind"]) == ("matvec/block", "Q4_0")


def test_without_a_build_the_worst_decides_and_both_are_listed(tmp_path: Path) -> None:
    lines = [line_of(), line_of(Verdict.FAIL, case_of(build=Build.DEFAULT))]
    url = database_with(tmp_path, lines)
    shown = found(url, CELL)
    assert shown["cell"]["verdict"] == "FAIL"
    assert shown["evidence"]["case"]["build"] == "default"
    assert [part["verdict"] for part in shown["parts"]] == ["PASS", "FAIL"]
    assert shown["name"] == f"{CPU.slug}/host/matvec/block/Q4_0"


def test_a_class_is_shown_by_its_worst_board(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of(Verdict.FAIL, device=CPU_2), line_of(device=CPU)])
    assert found(url, f"{CELL}/exact")["evidence"]["device"]["slug"] == CPU_2.slug


def test_a_cell_that_never_ran_says_so_and_how_to_run_it(failed: str) -> None:
    text = show(failed, "h200/cuda/matvec/block/Q4_0/exact").stdout
    assert "verdict      never run: nothing is known" in text
    assert "farm submit --kernel matvec/block --kind Q4_0 --build exact --backend cuda --device h200" in text
    assert "evidence" not in text


def test_an_sm_shows_every_class_of_it(failed: str) -> None:
    found = json.loads(show(failed, "--json", "sm_86/cuda/matvec/block/Q4_0").stdout)["found"]
    assert {"rtx-3060", "rtx-3090"} <= {each["cell"]["device_class"] for each in found}


def test_a_stale_cell_says_what_the_source_is_now(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of(source="0" * 64)])
    text = show(url, f"{CELL}/exact").stdout
    assert "verdict      PASS (stale)" in text
    assert "the source has changed since; it is " in text
    assert "was not kept" in show(url, f"{CELL}/exact", "--source").stdout


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR, Verdict.SKIP])
def test_a_verdict_without_outputs_is_shown_with_its_reason(tmp_path: Path, verdict: Verdict) -> None:
    text = show(database_with(tmp_path, [line_of(verdict)]), f"{CELL}/exact").stdout
    assert f"a reason for {verdict}" in text
    assert "nothing: no outputs came back" in text


def test_the_reason_is_that_of_the_case_shown_not_of_the_newest(tmp_path: Path) -> None:
    furthest, newer = line_of(Verdict.FAIL), line_of(Verdict.FAIL, case=case_of(rows=5))
    assert newer.comparison is not None
    near = replace(newer.comparison, bound_ratio=1.5, reason="a near miss")
    newer = replace(newer, comparison=near, reason="a near miss", finished_us=9_000_000)
    text = show(database_with(tmp_path, [furthest, newer]), f"{CELL}/exact").stdout
    assert "reason       1 of 3 elements outside the bound\n" in text
    assert "a near miss" not in text


def test_trouble_after_a_verdict_is_told_beside_it(tmp_path: Path) -> None:
    later = replace(line_of(Verdict.ERROR), finished_us=9_000_000)
    text = show(database_with(tmp_path, [line_of(Verdict.FAIL), later]), f"{CELL}/exact").stdout
    assert "reason       1 of 3 elements outside the bound\n" in text
    assert "last tried   ERROR, a reason for ERROR\n" in text


def test_a_second_rule_is_told_as_what_no_cell_folds(tmp_path: Path) -> None:
    line = replace(line_of(), rule=Rule.EXACT, rule_verdict=Verdict.FAIL)
    text = show(database_with(tmp_path, [line]), f"{CELL}/exact").stdout
    assert "by rule exact, which no cell folds: FAIL" in text


def test_a_job_that_waits_has_no_evidence_yet(failed: str) -> None:
    with open_database(failed).writing() as s:
        campaign.create(
            s,
            selection="{}",
            rule=Rule.BOUND,
            planned=[PlannedCase(case_of(), 1, "", "")],
            targets=[Target("host", "cpu-x86_64")],
            now_us=0,
        )
    text = show(failed, "1").stdout
    assert "job          job 1\n" in text
    assert "none yet, waiting" in text
    assert found(failed, "1")["job"]["state"] == "waiting"


def test_a_job_that_is_done_shows_the_line_that_decided_it(failed: str) -> None:
    case, line = case_of(), line_of(Verdict.FAIL)
    with open_database(failed).writing() as s:
        epoch = raise_epoch(s, now_us=0)
        campaign.create(
            s,
            selection="{}",
            rule=Rule.BOUND,
            planned=[PlannedCase(case, 1, line.source_digest, "")],
            targets=[Target("host", "cpu-x86_64")],
            now_us=0,
        )
        worker = queue.Worker("worker", CPU.slug, CPU.device_class, ("host",))
        (leased,) = queue.lease(s, epoch, worker, limit=1, now_us=1)
        outcome.complete(s, epoch, replace(line, attempt_id=leased.attempt_id), now_us=2)
    shown = found(failed, str(leased.job_id))
    assert (shown["job"]["verdict"], shown["job"]["state"]) == ("FAIL", "done")
    assert shown["evidence"]["evidence_id"] == line.evidence_id
    assert f"evidence     {line.evidence_id}: FAIL" in show(failed, str(leased.job_id)).stdout


def test_a_line_of_a_kernel_that_the_catalog_lost_is_still_shown(tmp_path: Path) -> None:
    line = line_of(Verdict.FAIL, case_of(kernel="gone"), source="0" * 64)
    text = show(database_with(tmp_path, [line]), "cpu-x86_64/host/matvec/gone/Q4_0").stdout
    assert "verdict      FAIL (stale)" in text
    assert "it is not in this catalog now" in text
    assert "d           0  00 3c" in text


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("7", "no job 7"), ("x", "is not written DEVICE/"), (CELL + "/O3", "no build named 'O3'")],
)
def test_a_wrong_name_is_one_line(failed: str, name: str, complaint: str) -> None:
    result = show(failed, name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


@pytest.mark.parametrize("kind", ["", "Q9_Z", "Q8_0"])
def test_bytes_that_are_not_the_kinds_are_shown_whole(kind: str) -> None:
    (field,) = fields_of(kind, BLOCK_HEX)
    assert (field.name, field.offset, field.hex) == ("", 0, BLOCK_HEX)


def test_what_quantizing_cost_is_shown_by_show_and_run(tmp_path: Path) -> None:
    line = line_of(Verdict.PASS)
    assert line.comparison is not None
    told = replace(line, comparison=replace(line.comparison, float_nmse=2.5e-5))
    text = show(database_with(tmp_path, [told]), f"{CELL}/exact").stdout
    assert "NMSE 2.5e-05 against the activations as given, not quantized\n" in text
    assert "  float nmse      2.5e-05  against the activations as given" in one_case_text.text(told)
    assert "float nmse" not in one_case_text.text(line)  # a kernel that quantizes nothing, and lines of old


def test_a_jobs_history_is_told_in_order_and_as_json(failed: str) -> None:
    line = line_of(Verdict.FAIL)
    with open_database(failed).writing() as s:
        epoch = raise_epoch(s, now_us=0)
        planned, targets = [PlannedCase(case_of(), 1, line.source_digest, "")], [Target("host", "cpu-x86_64")]
        campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=targets, now_us=1_000)
        worker = queue.Worker("worker-\x1b[2J", CPU.slug, CPU.device_class, ("host",))
        (leased,) = queue.lease(s, epoch, worker, limit=1, now_us=2_000)
        outcome.complete(s, epoch, replace(line, attempt_id=leased.attempt_id), now_us=3_000)
    head, *told = show(failed, "1", "--history").stdout.splitlines()
    assert head == "job 1 of campaign 1: matvec/block Q4_0 3x256, FAIL"
    assert [one.split("  ")[1] for one in told] == ["submitted", "made", "leased", "line", "decided"]
    assert told[2].startswith("1970-01-01T00:00:00.002Z  leased       attempt=1 lease=")
    assert "\x1b" not in told[2]
    document = json.loads(show(failed, "1", "--history", "--json").stdout)
    assert (document["job"], document["verdict"], document["state"]) == (1, "FAIL", "done")
    assert [one["event"] for one in document["history"]] == ["submitted", "made", "leased", "line", "decided"]
    assert document["history"][3]["cell"] == f"{CPU.slug}/host/matvec/block/Q4_0/exact"
    assert document["history"][3]["verdict"] == "FAIL"
    assert "verdict" not in document["history"][2]


@pytest.mark.parametrize(("name", "complaint"), [(CELL, "--history is of a job"), ("9", "no job 9")])
def test_a_history_of_what_is_no_job_is_one_line(failed: str, name: str, complaint: str) -> None:
    result = show(failed, name, "--history")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert complaint in result.stderr
