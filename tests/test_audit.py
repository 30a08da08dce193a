"""The audit agrees with every exported cell, and finds one that its evidence doesn't carry."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from farm.cli import main
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Device
from tests import audit as script
from tests.db.test_benchmark import times
from tests.farm.grids import CPU, CPU_2, GPU
from tests.farm.lines import case_of, database_with, line_of

SCRIPT = Path(__file__).with_name("audit.py")
ARCH = Device("sm_86", "sm_86", "sm_86 (NVRTC)", "sm_86")

Cells = list[dict[str, Any]]
Edit = Callable[[Cells], None]
Audit = Callable[..., tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Every verdict, three boards, old sources, a flaky cell, trouble after a verdict, SKIP beside PASS."""
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
    lines += gpu_lines()
    database_with(
        tmp_path, [replace(line, finished_us=line.finished_us + place) for place, line in enumerate(lines)]
    )
    return tmp_path / "farm.db"


def gpu_lines() -> Iterator[Evidence]:
    """A timed one with the twin's bits, one with others, one of a build that has no such rung."""
    yield replace(line_of(device=GPU), backend="cuda", benchmark=times(5.0))
    near = line_of(device=GPU, case=case_of("Q8_0"))
    assert near.comparison
    yield replace(near, backend="cuda", comparison=replace(near.comparison, bit_exact=False))
    yield replace(line_of(device=GPU, case=case_of(build=Build.DEFAULT)), backend="cuda")


@pytest.fixture
def audit(database: Path, tmp_path: Path) -> Audit:
    """Exports and holds the file against the database, in a process that has nothing of the farm."""

    def run(edit: Edit | None = None) -> tuple[int, str]:
        file = tmp_path / "matrix.json"
        words = ["export", "--format", "json", "--output", str(file), "--db", f"sqlite:///{database}"]
        assert CliRunner().invoke(main, words).exit_code == 0
        if edit:
            document = json.loads(file.read_text())
            edit(document["cells"])
            file.write_text(json.dumps(document))
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
        ("UPDATE capability SET trust = 'own' WHERE kind = 'Q6_K'", "trust is 'own', evidence says 'imp"),
        (
            "UPDATE capability SET rungs = 'device,exact' WHERE backend = 'cuda' AND kind = 'Q8_0'",
            "'exact', 'host', 'twin'], evidence says ['builds', 'device', 'host', 'twin']",
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


# What the GPU's cells of a kind are made to claim, and what is said of it; nothing where it is so.
CLAIMS = [
    ("Q4_0", {"rungs": ["twin", "builds", "device", "exact", "timed"]}, ""),
    ("Q4_0", {"rungs": ["twin", "builds", "exact", "timed"]}, "evidence says ['builds', 'device', "),
    ("Q4_0", {"rungs": ["twin", "builds", "device", "exact"]}, "evidence says ['builds', 'device', "),
    ("Q4_0", {"rungs": ["twin", "host", "builds", "device", "exact", "timed"]}, "rungs are ['builds', "),
    ("Q4_0", {"trust": "confirmed"}, "trust is 'confirmed', evidence says 'imported'"),
    ("Q8_0", {"rungs": ["twin", "host", "builds", "device"]}, ""),
    ("Q8_0", {"rungs": ["twin", "host", "builds", "device", "exact"]}, "rungs are ['builds', 'device', "),
    ("Q8_0", {"rungs": ["twin", "host", "builds", "device", "timed"]}, "rungs are ['builds', 'device', "),
    ("Q6_K", {"rungs": ["twin", "host"]}, ""),
    ("Q6_K", {"rungs": ["twin", "host", "builds"]}, "never run, but it wears builds"),
    ("Q6_K", {"rungs": ["twin", "device"]}, "never run, but it wears device"),
]


def test_a_gpus_row_wears_what_it_and_its_source_have_shown(
    audit: Audit, database: Path, tmp_path: Path
) -> None:
    assert audit()[0] == 0
    document = json.loads((tmp_path / "matrix.json").read_text())
    place = {"device": GPU.slug, "backend": "cuda", "op": "matvec", "kernel": "block", "build": "exact"}
    for kind, claim, says in CLAIMS:
        (at,) = (
            at
            for at, cell in enumerate(document["cells"])
            if (place | {"kind": kind}).items() <= {key: str(cell[key]) for key in (*place, "kind")}.items()
        )
        cells = document["cells"].copy()
        cells[at] = cells[at] | claim
        (tmp_path / "edited.json").write_text(json.dumps(document | {"cells": cells}))
        _, wrong = script.audit(database, tmp_path / "edited.json")
        assert len(wrong) == bool(says), wrong
        assert says in "".join(wrong)


def test_a_cell_that_two_boards_agree_on_is_confirmed(audit: Audit, database: Path) -> None:
    rows = sqlite3.connect(database)
    with rows:
        for table in ("evidence", "capability"):
            rows.execute(f"UPDATE {table} SET trust = 'own' WHERE kind = 'Q6_K'")
        key = "device, backend, op, kernel, kind, build, source_digest"
        cell = f"SELECT {key}, 'another', verdict, 9 FROM capability WHERE kind = 'Q6_K'"
        rows.execute(f"INSERT INTO agreement ({key}, other, verdict, agreed_us) {cell}")
    rows.close()

    def trusts(cells: Cells) -> None:
        found = {cell["trust"] for cell in cells if cell["kind"] == "Q6_K" and cell["verdict"]}
        assert found == {"confirmed"}

    assert audit(trusts)[0] == 0
