"""The audit agrees with every exported cell, and finds one that its evidence doesn't carry."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli import main
from kernels.evidence import Verdict
from kernels.model import Build, Device
from tests.farm.grids import CPU, CPU_2
from tests.farm.lines import case_of, database_with, line_of

SCRIPT = Path(__file__).with_name("audit.py")
ARCH = Device("sm_86", "sm_86", "sm_86 (NVRTC)", "sm_86")

Audit = Callable[[], tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Every verdict, two boards, old sources, a flaky cell, trouble after a verdict, SKIP beside PASS."""
    lines = [
        line_of(verdict, case_of(kernel="block", rows=3 + place)) for place, verdict in enumerate(Verdict)
    ]
    lines += [line_of(device=CPU_2), line_of(case=case_of("Q4_K"), source="0" * 64)]
    lines += [line_of(Verdict.FAIL, case_of("Q8_0")), line_of(case=case_of("Q8_0"))]
    lines += [
        line_of(case=case_of("Q6_K")),
        replace(line_of(Verdict.LOST, case_of("Q6_K")), finished_us=9_000_000),
    ]
    lines += [line_of(case=case_of("Q5_K")), line_of(Verdict.SKIP, case_of("Q5_K", rows=4))]
    lines += [line_of(Verdict.SKIP, case_of("Q2_K")), line_of(case=case_of("Q3_K", build=Build.DEFAULT))]
    lines += [line_of(source=digit * 64, case=case_of("MXFP4")) for digit in "123"]
    lines += [replace(line_of(device=ARCH, case=case_of("Q4_0")), backend="nvrtc", comparison=None)]
    wrong = line_of(Verdict.FAIL, case_of("IQ4_NL"))
    assert wrong.comparison
    lines.append(replace(wrong, comparison=replace(wrong.comparison, bound_ratio=float("nan"))))
    database_with(
        tmp_path, [replace(line, finished_us=line.finished_us + place) for place, line in enumerate(lines)]
    )
    return tmp_path / "farm.db"


@pytest.fixture
def audit(database: Path, tmp_path: Path) -> Audit:
    """Exports and holds the file against the database, in a process that has nothing of the farm."""

    def run() -> tuple[int, str]:
        file = tmp_path / "matrix.json"
        words = ["export", "--format", "json", "--output", str(file), "--db", f"sqlite:///{database}"]
        assert CliRunner().invoke(main, words).exit_code == 0
        told = subprocess.run(
            [sys.executable, "-I", str(SCRIPT), str(database), str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        return told.returncode, told.stdout + told.stderr

    return run


def test_every_exported_cell_is_what_its_evidence_says(audit: Audit) -> None:
    code, said = audit()
    assert (code, said.endswith(" cells, 0 differences\n")) == (0, True), said
    assert int(said.split(" ")[0]) > 1000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "UPDATE capability SET verdict = 'PASS' WHERE verdict = 'FAIL' AND kind = 'Q4_0'",
            "verdict is 'PASS'",
        ),
        (
            "UPDATE capability SET bound_ratio = 0.1 WHERE kind = 'Q6_K'",
            "bound_ratio is 0.1, evidence says 0.5",
        ),
        ("UPDATE capability SET cases = 7 WHERE kind = 'Q5_K'", "cases is 7, evidence says 1"),
        ("UPDATE capability SET flags = '' WHERE flags = 'flaky'", "flaky is False, evidence says True"),
        ("UPDATE capability SET rungs = 'twin,host,exact' WHERE kind = 'Q3_K'", "rungs are ['exact',"),
        ("UPDATE capability SET last_run_us = 0 WHERE kind = 'Q6_K'", "last_run is '1970-01-01T00:00:00Z'"),
        (
            "UPDATE capability SET bit_exact = 1 WHERE kind = 'IQ4_NL'",
            "bit_exact is True, evidence says False",
        ),
        ("DELETE FROM capability WHERE kind = 'Q6_K'", "never run, but there is evidence of 1 sources"),
        ("DELETE FROM evidence WHERE kind = 'Q6_K'", "PASS, but there is no evidence of source"),
        (
            "DELETE FROM capability WHERE source_digest LIKE '333%'",
            "stale, and not the newest source that ran",
        ),
        ("UPDATE evidence SET suspect = 1 WHERE kind = 'Q6_K'", "suspect is False, evidence says True"),
    ],
)
def test_a_cell_that_says_something_else_is_found(
    change: str, says: str, audit: Audit, database: Path
) -> None:
    rows = sqlite3.connect(database)
    with rows:
        assert rows.execute(change).rowcount > 0
    rows.close()
    code, said = audit()
    assert code == 3
    assert says in said


def test_a_kernel_of_no_catalog_has_a_cell_too(audit: Audit, database: Path) -> None:
    rows = sqlite3.connect(database)
    with rows:
        rows.execute("UPDATE evidence SET kernel = 'gone' WHERE kind = 'Q6_K'")
    rows.close()
    code, said = audit()
    assert code == 3
    assert "/gone/Q6_K/exact: evidence without a cell" in said
    assert CPU.slug in said
