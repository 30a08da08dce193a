"""Evidence: stored whole, found again, counted when it repeats."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import capability, evidence, tables
from kernels.errors import FarmError
from kernels.evidence import LaunchRecord, Verdict, Worst
from tests.db.making import BOARD, Farm, case, comparison, line


def test_a_line_comes_back_as_it_was_sent(farm: Farm) -> None:
    worst = Worst(0, "matvec/block", "out", (3,), math.nan, 1.0, 1.0, 0.1, "00ff")
    launch = LaunchRecord("matvec/block", "entry", (1, 1, 1), (256, 1, 1), 0, 1024, "d", 1.5)
    sent = line(case(1), Verdict.FAIL, comparison=comparison(Verdict.FAIL, worst=worst), launches=(launch,))
    farm.complete(sent)
    with farm.database.reading() as s:
        stored = evidence.get(s, sent.evidence_id)
    assert stored is not None
    assert repr(stored.line) == repr(sent)  # repr, since a NaN is not equal to itself
    assert stored.stored_us == 20


def test_unknown_evidence_is_none(farm: Farm) -> None:
    with farm.database.reading() as s:
        assert evidence.get(s, "nothing") is None


def test_columns_carry_the_figures(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(2), Verdict.CRASH))
    columns = (tables.evidence.c.bound_ratio, tables.evidence.c.positions, tables.evidence.c.judge)
    with farm.database.reading() as s:
        found = s.execute(sa.select(*columns).order_by(tables.evidence.c.positions)).all()
    assert [tuple(row) for row in found] == [(None, 0, None), (0.5, 10, "oracle")]


def test_lines_of_a_cell_come_newest_first(farm: Farm) -> None:
    farm.complete(*(line(case(rows), finished_us=when) for rows, when in ((1, 5), (2, 9), (3, 7))))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        times = [stored.line.finished_us for stored in evidence.of_cell(s, cell.key)]
        assert times == [9, 7, 5]
        assert len(evidence.of_cell(s, cell.key, limit=2)) == 2
        assert evidence.of_cell(s, cell.key._replace(build="default")) == ()


def test_an_import_is_marked_and_folded(farm: Farm) -> None:
    lines = [line(case(1)), line(case(2), Verdict.FAIL)]
    with farm.database.writing() as s:
        assert evidence.import_lines(s, lines, 30) == evidence.ImportReport(new=2, repeated=0)
        stored = evidence.of_case(s, case(2).id)
        assert capability.cells(s)[0].verdict is Verdict.FAIL
    assert [(found.line.origin, found.line.trust) for found in stored] == [("bundle", "imported")]


def test_importing_again_changes_nothing(farm: Farm) -> None:
    lines = [line(case(1)), line(case(2))]
    with farm.database.writing() as s:
        evidence.import_lines(s, lines[:1], 30)
        before = capability.cells(s)
        assert evidence.import_lines(s, [lines[0], lines[0]], 31) == evidence.ImportReport(0, 2)
        assert capability.cells(s) == before
        assert evidence.import_lines(s, lines, 32) == evidence.ImportReport(1, 1)


def test_an_import_larger_than_a_statement_arrives_whole(farm: Farm) -> None:
    count = evidence.IMPORT_BATCH + 3
    with farm.database.writing() as s:
        assert evidence.import_lines(s, (line(case(1)) for _ in range(count)), 30).new == count
        assert capability.cells(s)[0].cases == 1


def test_a_changed_case_refuses_the_whole_import(farm: Farm) -> None:
    good, forged = line(case(1)), replace(line(case(2)), case_id=case(3).id)
    with pytest.raises(FarmError, match="the line was changed"), farm.database.writing() as s:
        evidence.import_lines(s, [good, forged], 30)
    with farm.database.reading() as s:
        assert evidence.get(s, good.evidence_id) is None


def test_evidence_of_a_board_never_seen_brings_the_board(farm: Farm) -> None:
    board = replace(BOARD, slug="rtx-3060-1", device_class="rtx-3060")
    farm.complete(line(case(1), device=board, backend="cuda"))
    with farm.database.reading() as s:
        assert [cell.key.device for cell in capability.cells(s, device_class="rtx-3060")] == ["rtx-3060-1"]
