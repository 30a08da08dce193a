"""Workers' clocks may be years off; which line is the newest is told by the coordinator's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import capability, device, evidence, tables
from db.cell import Capability
from db.evidence import SKEW_US
from db.outcome import complete_many
from db.queue import lease
from kernels.evidence import Verdict
from tests.db.making import WORKER, Farm, answer, case, line

DAY = 86_400_000_000
YEARS = 25_000 * DAY
NOW = 20_000 * DAY


def run(farm: Farm, now_us: int, verdict: Verdict, ended_us: int) -> None:
    """One job of one case, leased a second before its line came."""
    campaign_id = farm.submit([case(1)])
    with farm.database.writing() as s:
        (leased,) = lease(s, farm.epoch, WORKER, 1, now_us - 1_000_000)
        assert leased.campaign_id == campaign_id
        complete_many(s, farm.epoch, [answer(leased, verdict, finished_us=ended_us)], now_us)


def cell(farm: Farm) -> Capability:
    with farm.database.reading() as s:
        (found,) = capability.cells(s)
        assert capability.rebuilt(s) == {found.key: found}
    return found


@pytest.mark.parametrize("ahead_us", [DAY, YEARS])
def test_the_next_run_decides_whatever_the_clock_of_the_last_one_said(farm: Farm, ahead_us: int) -> None:
    run(farm, NOW, Verdict.PASS, NOW + ahead_us)
    run(farm, NOW + DAY // 2, Verdict.FAIL, NOW + DAY // 2)
    assert (cell(farm).verdict, cell(farm).last_run_us) == (Verdict.FAIL, NOW + DAY // 2)


@pytest.mark.parametrize("behind_us", [DAY, NOW])
def test_a_clock_that_is_behind_makes_no_old_line_of_a_new_one(farm: Farm, behind_us: int) -> None:
    run(farm, NOW, Verdict.PASS, NOW)
    run(farm, NOW + DAY // 2, Verdict.FAIL, NOW + DAY // 2 - behind_us)
    assert (cell(farm).verdict, cell(farm).last_run_us) == (Verdict.FAIL, NOW + DAY // 2 - 1_000_000)


def test_clocks_that_are_right_enough_are_believed(farm: Farm) -> None:
    run(farm, NOW, Verdict.PASS, NOW + SKEW_US)
    assert cell(farm).last_run_us == NOW + SKEW_US


def test_an_imported_line_is_no_later_than_its_import_and_as_old_as_it_says(farm: Farm) -> None:
    lines = [line(case(1), finished_us=NOW - YEARS // 2), line(case(2), finished_us=NOW + YEARS)]
    with farm.database.writing() as s:
        evidence.import_lines(s, lines, NOW)
        query = sa.select(tables.evidence.c.started_us, tables.evidence.c.finished_us)
        found = s.execute(query.order_by(tables.evidence.c.finished_us)).all()
        (seen,) = device.devices(s)
        (stored,) = evidence.of_case(s, case(2).id)
    assert [tuple(row) for row in found] == [(NOW - YEARS // 2 - 1, NOW - YEARS // 2), (NOW - 1, NOW)]
    assert seen.last_seen_us == NOW
    assert stored.line.finished_us == NOW + YEARS  # what it said of itself is kept


def test_what_took_longer_than_there_is_time_begins_with_the_calendar(farm: Farm) -> None:
    endless = replace(line(case(1), finished_us=NOW + YEARS), started_us=0)
    with farm.database.writing() as s:
        evidence.import_lines(s, [endless], NOW)
        (started_us,) = s.execute(sa.select(tables.evidence.c.started_us)).scalars()
    assert started_us == 0
