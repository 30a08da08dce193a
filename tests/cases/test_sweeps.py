"""Cases from the field about whole sweeps: one that hangs, one that aborts, one that never came to run."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import exports
from farm.matrix import Matrix, Row
from farm.web import grid
from kernels import catalog
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Case
from tests.cases.fakes.wanton import HANGS, endless
from tests.cases.making import RunCase, found, linear_case, positions
from tests.farm.grids import CPU, H200, capability, matrix_of
from tests.workers.cases import matvec_case, request_for
from workers.host import compiler
from workers.isolate import Isolated
from workers.state import compile_cache

FAKES = Path(__file__).parent / "fakes"
MOODY = Path(__file__).parents[1] / "workers" / "fakes"
LONG_S, SHORT_S = 60.0, 2.0


@pytest.fixture
def slot(request: pytest.FixtureRequest) -> Iterator[Isolated]:
    isolated = Isolated(request.param)
    yield isolated
    isolated.close()


def ask(slot: Isolated, case: Case, backend: str, deadline_s: float = LONG_S) -> Evidence:
    return slot.run(request_for(case, backend), deadline_s)


@pytest.mark.parametrize("slot", [FAKES], indirect=True)
def test_case_14_hung_kernel_is_timed_out_and_the_next_case_passes(run: RunCase, slot: Isolated) -> None:
    """Compiled beforehand, so that the deadline is spent in the kernel."""
    text = endless("matvec/block", "Q4_0")
    compiler.build(text, "matvec_block_q4_0.cu", Build.EXACT.value, compile_cache())
    before = ask(slot, linear_case("matvec/block", "Q4_0", 9, 3), "wanton")
    hung = ask(slot, linear_case("matvec/block", "Q4_0", HANGS, 3), "wanton", SHORT_S)
    after = ask(slot, linear_case("matvec/block", "Q4_0", 10, 3), "wanton")
    assert found(before) == (Verdict.PASS, 9)
    assert found(hung) == (Verdict.TIMEOUT, 0)
    assert hung.reason == "outlived its deadline of 2 s in phase launch and was killed"
    assert SHORT_S <= (hung.finished_us - hung.started_us) / 1e6 < 30
    assert found(after) == (Verdict.PASS, 10)


ABORTS = 102  # rows at which the moody backend calls abort()


@pytest.mark.parametrize("slot", [MOODY], indirect=True)
def test_case_20_aborting_case_as_third_of_300_leaves_300_verdicts(slot: Isolated) -> None:
    rows = [3, 4, ABORTS, *(3 + number % 5 for number in range(297))]
    lines = [ask(slot, matvec_case(rows=count), "moody") for count in rows]
    assert Counter(line.verdict for line in lines) == {Verdict.PASS: 299, Verdict.CRASH: 1}
    assert lines[2].reason == "died of SIGABRT in phase launch"
    assert sum(map(positions, lines)) == sum(rows) - ABORTS
    assert len({line.evidence_id for line in lines}) == 300


NEVER = Row("matvec", "added_today", "Q4_0", "exact")
VERDICT_ROWS = {verdict: Row("matvec", f"ended_{verdict.lower()}", "Q4_0", "exact") for verdict in Verdict}


def added_to_the_catalog() -> Matrix:
    """A row of every verdict, and one that nothing ran, on a CPU."""
    ran = [capability(verdict, row=row) for verdict, row in VERDICT_ROWS.items()]
    return matrix_of(ran, rows=[*VERDICT_ROWS.values(), NEVER], devices=[CPU])


def in_md(text: str, row: Row) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| matvec/{row.kernel} ")]
    return line.strip("|").split("|")[-1].strip().strip("*")


def in_csv(text: str, row: Row) -> str:
    (line,) = [line for line in csv.DictReader(io.StringIO(text)) if line["kernel"] == row.kernel]
    return line["verdict"]


def in_json(text: str, row: Row) -> str | None:
    (cell,) = [cell for cell in json.loads(text)["cells"] if cell["kernel"] == row.kernel]
    verdict: str | None = cell["verdict"]
    return verdict


def in_html(text: str, row: Row) -> str:
    """A cell has its verdict's letter."""
    letter = re.search(rf'data-at="{"/".join(row)}">Q4_0<td[^>]*>([^<]*)', text)
    assert letter is not None
    return {grid.LETTERS[verdict]: verdict.value for verdict in Verdict}.get(letter[1], letter[1])


def in_svg(text: str, row: Row) -> str:
    (tip,) = re.findall(rf"<title>[^<]*/{'/'.join(row)}: ([^<]*)</title>", text)
    return str(tip)


READ = {
    "md": (in_md, "·"),
    "csv": (in_csv, ""),
    "json": (in_json, None),
    "html": (in_html, "·"),
    "svg": (in_svg, "never run"),
}


def test_case_18_never_run_is_read_from_every_export() -> None:
    """ops-csv and flashinfer-trace have lines of what ran alone: what nobody ran isn't in them."""
    assert sorted([*READ, "ops-csv", "flashinfer-trace"]) == exports.names()
    text = exports.export("ops-csv").render(added_to_the_catalog())
    told = {row.kernel: f"kernel={row.kernel}," in text for row in (*VERDICT_ROWS.values(), NEVER)}
    assert told == {row.kernel: row is not NEVER for row in (*VERDICT_ROWS.values(), NEVER)}
    assert text.count('"yes"') == 1


@pytest.mark.parametrize("name", READ)
def test_case_18_never_run_is_no_verdict_in_any_export(name: str) -> None:
    read, never = READ[name]
    text = exports.export(name).render(added_to_the_catalog().by_class())
    assert [read(text, row) for row in VERDICT_ROWS.values()] == [verdict.value for verdict in Verdict]
    assert read(text, NEVER) == never
    assert never not in [verdict.value for verdict in Verdict]


@pytest.mark.parametrize("name", READ)
def test_case_18_never_run_shows_as_skip_once_it_was_skipped(name: str) -> None:
    """The readers above tell the two apart: a matrix that said SKIP for never run would trip them."""
    read, never = READ[name]
    skipped = matrix_of([capability(Verdict.SKIP, row=NEVER)], rows=[NEVER], devices=[CPU])
    assert read(exports.export(name).render(skipped), NEVER) == "SKIP" != never


def test_case_18_never_run_is_counted_and_explained_in_markdown() -> None:
    text = exports.export("md").render(added_to_the_catalog())
    assert re.search(r"1 FAIL, .*1 SKIP, 1 never run\.", text)
    assert "| · | never run here: nothing is known |" in text


def test_case_18_never_run_is_every_cell_of_a_catalog_before_its_first_run() -> None:
    rows = [Row(cell.op, cell.kernel, cell.kind, cell.build.value) for cell in catalog.cells()]
    cells = matrix_of([], rows=rows, devices=[CPU], targets=[H200]).cells
    assert len(cells) == 2 * len(rows)
    assert {(cell.verdict, cell.rungs, cell.positions) for cell in cells} == {(None, (), 0)}
