"""uses: coverage by how often a shape is used, and the command that runs such a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from db.job import JobRow
from farm.campaign import Order, Workloads, plan
from farm.uses import fold
from farm.workload_file import Left
from kernels.catalog import Selection, Use
from kernels.evidence import Verdict
from kernels.model import Build, Case, Shape
from tests.farm.test_local import Farm

USES = (
    Use("matvec", Shape.of(rows=8, cols=64), 600),
    Use("mul_mm", Shape.of(rows=8, cols=64, batch=2), 300),
    Use("matvec", Shape.of(rows=9, cols=96), 50),
)
ORDER = Order(
    Selection(kinds=("Q4_0",), builds=(Build.EXACT,), uses=USES),
    ("twin",),
    workloads=Workloads("shapes.csv", (Left("gqa", "no op", 50),)),
)
PLANNED = [one.case for one in plan(ORDER).planned]


def job(case: Case, verdict: Verdict | None) -> JobRow:
    state = "done" if verdict else "waiting"
    return JobRow(1, 1, case, case.id, "twin", "cpu", state, 0, 0, verdict, None, None, 1, "", "")


def states(*verdicts: tuple[int, str, Verdict | None]) -> dict[str, int]:
    """Coverage where every job PASSes but those of a use number and kernel."""
    changed = {(str(USES[number].shape), kernel): verdict for number, kernel, verdict in verdicts}
    jobs = [job(case, changed.get((str(case.shape), case.kernel), Verdict.PASS)) for case in PLANNED]
    return fold(ORDER, jobs).counts()


def test_cases_of_what_is_used_most_come_first() -> None:
    counts = {(use.op, use.shape): use.count for use in USES}
    found = [counts[case.op, case.shape] for case in PLANNED]
    assert found == sorted(found, reverse=True)
    assert set(found) == {600, 300, 50}
    assert {case.family for case in PLANNED} == {"ordinary"}


def test_uses_with_a_passing_job_and_none_bad_are_covered() -> None:
    assert states() == {"PASS": 950, "no op here": 50}
    assert states((0, "block", Verdict.SKIP)) == {"PASS": 950, "no op here": 50}


def test_one_bad_job_makes_all_uses_of_its_shape_bad() -> None:
    assert states((0, "block", Verdict.FAIL)) == {"FAIL": 600, "PASS": 350, "no op here": 50}


def test_uses_wait_for_all_their_jobs_and_bad_ones_do_not() -> None:
    waiting, bad = (1, "reference", None), (0, "block", Verdict.CRASH)
    assert states(waiting, bad, (0, "coalesced", None)) == {
        "CRASH": 600, "PASS": 50, "no verdict yet": 300, "no op here": 50,
    }  # fmt: skip


def test_uses_of_ops_that_were_not_selected_say_so() -> None:
    jobs = [job(case, Verdict.PASS) for case in PLANNED if case.op == "matvec"]
    found = fold(ORDER, jobs)
    assert found.counts() == {"PASS": 650, "not selected": 300, "no op here": 50}
    assert found.line() == ("shapes.csv, 1,000 uses: 65.0 % PASS, 30.0 % not selected, 5.0 % no op here")


def test_the_case_of_a_use_is_the_case_of_its_shape_asked_for_by_name() -> None:
    """Counts are no part of a case: the evidence of both is one cell's."""
    by_name = replace(ORDER.selection, uses=(), shapes=("matvec:8x64", "mul_mm:8x64x2", "matvec:9x96"))
    named = plan(replace(ORDER, selection=by_name, workloads=None)).planned
    assert {one.case for one in named} == set(PLANNED)


SUBMIT = ("submit", "--kind", "Q4_0", "--build", "exact", "--backend", "twin", "--local")


def test_a_file_is_run_and_its_coverage_shown(farm: Farm, tmp_path: Path) -> None:
    path = tmp_path / "shapes.jsonl"
    entries = [
        {"op": "matvec", "shape": "8x64", "count": 90},
        {"op": "matvec", "shape": "8x48", "count": 9},  # no whole tile
        {"definition": "mla_paged_decode_h16", "workload": {"axes": {"batch_size": 1}}},
    ]
    path.write_text("\n".join(map(json.dumps, entries)))
    result = farm(*SUBMIT, "--workloads", str(path), "--json")
    assert result.exit_code == 0
    assert "mla_paged_decode_h16: no op for op type 'mla_paged_decode'" in result.stderr
    figures = json.loads(result.stdout)["uses"]
    assert figures["by_state"] == {"PASS": 90, "SKIP": 9, "no op here": 1}
    status = json.loads(farm("status", "--json").stdout)["campaigns"][0]
    assert status["uses"] == figures
    assert status["uses"]["shapes"][0] == {"op": "matvec", "shape": "8x64", "count": 90, "state": "PASS"}
    line = "shapes.jsonl, 100 uses: 90.0 % PASS, 9.0 % SKIP, 1.0 % no op here"
    assert line in farm("status").stdout
    assert farm(*SUBMIT, "--workloads", str(path)).stdout.splitlines()[-1] == line


def test_mistakes_are_lines_and_nothing_is_stored(farm: Farm, tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("op,shape\nmatvec,8\nffn,8x8x8\nmatvec,8x64\n")
    result = farm(*SUBMIT, "--workloads", str(path))
    assert result.exit_code == 2
    first, second, last = result.stderr.splitlines()
    assert first.startswith(f"farm: {path}:2: shape '8' is not one of matvec's")
    assert second.startswith(f"farm: {path}:3: shape '8x8x8' is not one of ffn's")
    assert last == f"farm: {path}: 2 mistakes; nothing was submitted"
    assert not Path(".farm/farm.db").exists()


@pytest.mark.parametrize("other", [("--tier", "full"), ("--shape", "matvec:8x64"), ("--gguf", "x.gguf")])
def test_other_sources_of_shapes_are_refused_beside_a_file(
    farm: Farm, other: tuple[str, str], tmp_path: Path
) -> None:
    result = farm(*SUBMIT, *other, "--workloads", str(tmp_path / "a.csv"))
    assert result.exit_code == 2
    assert "each say which shapes run; leave out all but one" in result.stderr


def test_a_file_of_which_nothing_can_run_is_no_campaign(farm: Farm, tmp_path: Path) -> None:
    path = tmp_path / "moe.jsonl"
    path.write_text('{"definition": "moe_fp8_e32", "workload": {"axes": {"seq_len": 7}}}\n' * 2)
    result = farm(*SUBMIT, "--workloads", str(path))
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "moe_fp8_e32: no op for op type 'moe'; there is one for gemm, rmsnorm (2 uses)",
        f"farm: no job: no op here computes any of {path}'s uses",
    ]
    assert not Path(".farm/farm.db").exists()


def test_a_file_that_is_not_there_is_one_line(farm: Farm) -> None:
    result = farm(*SUBMIT, "--workloads", "nowhere.csv")
    assert (result.exit_code, result.stderr) == (1, "farm: nowhere.csv: No such file or directory\n")
