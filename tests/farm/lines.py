"""Evidence lines and databases that hold them, as the tests of the reading commands need them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from db import evidence
from db.session import open_database
from farm.matrix import Row
from farm.reader import source_digest
from kernels.evidence import Comparison, Evidence, LaunchRecord, Verdict, Worst
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Device, Seeded, Shape
from tests.farm.grids import CPU

# The Q4_0 block of scale 1.0 and quants 0, 1, … 15 in both nibbles.
BLOCK_HEX = "003c" + "".join(f"{q:x}{q:x}" for q in range(16))
WORST = Worst(0, "matvec/block", "out", (2,), got=5.0, want=1.0, twin=1.25, limit=0.5, block=BLOCK_HEX)


def case_of(kind: str = "Q4_0", build: Build = Build.EXACT, kernel: str = "block", rows: int = 3) -> Case:
    seeded = Seeded("ordinary", 0, FIXTURE_VERSION)
    return Case("matvec", kernel, (kind,), Shape.of(rows=rows, cols=256), seeded, seeded, build)


def comparison(verdict: Verdict) -> Comparison:
    """Three positions, of which one is eight times past its limit where the verdict isn't PASS."""
    right = verdict is Verdict.PASS
    return Comparison(
        verdict,
        reason="" if right else "1 of 3 elements outside the bound",
        judge="oracle",
        positions=3,
        bad=0 if right else 1,
        bound_ratio=0.5 if right else 8.0,
        relative_ratio=0.25,
        nan_positions_equal=True,
        nmse=1e-12,
        bit_exact=right,
        twin_agrees=True,
        worst=WORST,
        worst_rows=((2, 8.0),),
    )


def line_of(
    verdict: Verdict = Verdict.PASS, case: Case | None = None, device: Device = CPU, source: str = ""
) -> Evidence:
    """One line of host evidence; its source is this catalog's own unless given."""
    case = case or case_of()
    ran = verdict in (Verdict.PASS, Verdict.FAIL)
    compared = comparison(verdict) if ran else None
    launch = LaunchRecord("matvec/block", "matvec_block_q4_0", (3, 1, 1), (256, 1, 1), 0, 1024, "ab12", 42.0)
    return Evidence(
        evidence_id=str(uuid.uuid4()),
        case=case,
        case_id=case.id,
        source_digest=source or source_digest(Row(case.op, case.kernel, case.kind, case.build.value)),
        inputs_digest="1" * 64,
        output_digest="2" * 64,
        device=device,
        backend="host",
        verdict=verdict,
        reason=compared.reason if compared else f"a reason for {verdict}",
        comparison=compared,
        repeats=1,
        launches=(launch,) if ran else (),
        compiler="g++ 12.2.0",
        flags="-O2 -ffp-contract=off",
        started_us=1_000_000,
        finished_us=2_000_000,
        versions=(("farm", "0.1.0"), ("numpy", "2.4.0")),
        timings_us=(("launch", 42.0),),
    )


def database_with(folder: Path, lines: Iterable[Evidence]) -> str:
    """The URL of a new database that has these lines, all from before they were stored."""
    url, lines = f"sqlite:///{folder / 'farm.db'}", list(lines)
    now_us = max(3_000_000, *(line.finished_us for line in lines)) if lines else 0
    database = open_database(url)
    with database.writing() as s:
        evidence.import_lines(s, lines, now_us)
    database.close()
    return url
