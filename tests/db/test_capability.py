"""Capabilities: what the table has is what a fold over evidence gives, however lines came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from db import capability, evidence
from db.cell import Capability, Finding
from db.session import open_database
from kernels.errors import UsageError
from kernels.evidence import Evidence, Verdict
from kernels.model import Build
from tests.db.making import BOARD, Farm, case, comparison, line
from tests.db.test_cell import finding, folded

UPDATED = replace(BOARD, fingerprint=(("compiler", "g++ 14"),))

made_lines = st.lists(
    st.builds(
        line,
        of=st.sampled_from([case(1), case(2), case(1, build=Build.DEFAULT)]),
        verdict=st.sampled_from(list(Verdict)),
        finished_us=st.integers(2, 6),
        device=st.sampled_from([BOARD, UPDATED]),
    ),
    min_size=1,
    max_size=8,
)


def finding_of(made: Evidence) -> Finding:
    """A finding straight from a line, past the database."""
    figures = vars(made.comparison) if made.comparison else {}
    names = ("bound_ratio", "relative_ratio", "nmse", "bit_exact", "twin_agrees")
    return finding(
        made.verdict,
        made.case_id,
        made.finished_us,
        key=evidence.key_of(made),
        evidence_id=made.evidence_id,
        fingerprint_digest=made.device.fingerprint_digest,
        reason=made.reason,
        positions=figures.get("positions", 0),
        trust="imported",  # as a bundle's
        **{name: figures.get(name) for name in names},
    )


def expected(made: Sequence[Evidence]) -> list[Capability]:
    """The pure fold over everything, cell by cell."""
    keys = sorted({evidence.key_of(sent) for sent in made})
    return [folded(*(finding_of(sent) for sent in made if evidence.key_of(sent) == key)) for key in keys]


# The last came late: it contradicts the first, of the same state of the board, not the newest of another.
LATE = [
    line(case(1), device=UPDATED, finished_us=2),
    line(case(1), finished_us=3),
    line(case(1), Verdict.FAIL, device=UPDATED, finished_us=2),
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made_lines, st.integers(1, 8))
@example(LATE, 1)
def test_folding_as_lines_come_equals_rebuilding(tmp_path: Path, made: list[Evidence], batch: int) -> None:
    path = tmp_path / "farm.db"
    path.unlink(missing_ok=True)
    database = open_database(f"sqlite:///{path}")
    for start in range(0, len(made), batch):
        with database.writing() as s:
            # The later batches claim to be stored earlier: the time of arrival must not matter.
            evidence.import_lines(s, made[start : start + batch], 100 - start)
    with database.writing() as s:
        grown = capability.cells(s)
        assert capability.rebuild(s) == len(grown)
        assert list(capability.cells(s)) == list(grown) == sorted(expected(made), key=lambda cell: cell.key)
    database.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made_lines)
def test_a_cell_is_as_old_as_the_oldest_line_that_counts(tmp_path: Path, made: list[Evidence]) -> None:
    path = tmp_path / "farm.db"
    path.unlink(missing_ok=True)
    database = open_database(f"sqlite:///{path}")
    with database.writing() as s:
        evidence.import_lines(s, made, 100)
        found = capability.oldest(s)
        for key in {evidence.key_of(sent) for sent in made}:
            counted = [one.counts for one in capability.standings(s, key)]
            ran = [one for one in counted if one.verdict is not Verdict.SKIP] or counted
            assert found.pop(key) == min(one.finished_us for one in ran)
    assert found == {}
    database.close()


def test_neither_a_newer_case_nor_trouble_makes_a_cell_younger(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(2), finished_us=30), line(case(3), Verdict.SKIP, finished_us=5))
    farm.complete(line(case(1), Verdict.LOST, finished_us=40))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        assert (cell.last_run_us, capability.oldest(s)) == (30, {cell.key: 10})


def test_folding_one_cell_leaves_its_neighbours_alone(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(1, kernel="coalesced"), Verdict.FAIL))
    farm.complete(line(case(1), finished_us=30))
    with farm.database.reading() as s:
        found = {cell.key.kernel: (cell.verdict, cell.last_run_us) for cell in capability.cells(s)}
    assert found == {"block": (Verdict.PASS, 30), "coalesced": (Verdict.FAIL, 10)}


def test_one_row_a_cell(farm: Farm) -> None:
    farm.complete(
        *(line(case(rows, build=build)) for rows in (1, 2, 3) for build in (Build.EXACT, Build.DEFAULT))
    )
    with farm.database.reading() as s:
        assert s.exec_driver_sql("SELECT count(*) FROM capability").scalar_one() == 2


def test_cells_are_found_by_their_columns(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(1, kernel="coalesced")))
    with farm.database.reading() as s:
        (found,) = capability.cells(s, kernel="coalesced", device_class=BOARD.device_class)
        assert (found.key.kernel, found.device_class) == ("coalesced", "cpu-x86_64")
        assert capability.cell(s, found.key) == found
        assert capability.cells(s, op="mul_mm") == ()
        with pytest.raises(UsageError, match="no column 'colour'"):
            capability.cells(s, colour="red")


def test_standings_tell_case_by_case(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(2), Verdict.FAIL))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        stands = {found.counts.case_id: found.counts.verdict for found in capability.standings(s, cell.key)}
    assert stands == {case(1).id: Verdict.PASS, case(2).id: Verdict.FAIL}


def test_a_nan_ratio_is_kept_as_infinite(farm: Farm) -> None:
    farm.complete(line(case(1), Verdict.FAIL, comparison=comparison(Verdict.FAIL, bound_ratio=math.nan)))
    with farm.database.reading() as s:
        assert capability.cells(s)[0].bound_ratio == math.inf
