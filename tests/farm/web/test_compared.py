"""Two sides held against each other: what is added, lost, fixed, broken, changed; what a side may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from db.history import Place
from db.session import Database, open_database, open_existing
from farm.held import Holder
from farm.web.compared import MEANINGS, Side, changes, sort_of
from farm.web.reader import Reader
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict
from tests.db.making import Farm, answer, case
from tests.farm.grids import CPU, GPU
from tests.farm.lines import case_of, database_with, line_of

HERE = Place("cpu-x86_64", "host", "matvec", "block", "Q4_0", "exact")
OLD = "ab" * 32


@pytest.mark.parametrize(
    ("was", "now", "sort"),
    [
        (None, Verdict.PASS, "added"),
        (Verdict.PASS, None, "lost"),
        (Verdict.FAIL, Verdict.PASS, "fixed"),
        (Verdict.SKIP, Verdict.CRASH, "broken"),
        (Verdict.FAIL, Verdict.CRASH, "changed"),
        (Verdict.PASS, Verdict.SKIP, "changed"),
    ],
)
def test_a_difference_has_its_sort(was: Verdict | None, now: Verdict | None, sort: str) -> None:
    assert sort_of(was, now) == sort
    assert sort in MEANINGS


def test_places_count_unless_both_sides_are_boards() -> None:
    there = HERE._replace(device="rtx-3060", backend="cuda")
    before, after = ({HERE: Verdict.PASS}, {there: Verdict.FAIL})
    apart = changes(Side(before, by_row=False), Side(after, by_row=True))
    assert [len(apart[sort]) for sort in ("added", "lost", "broken")] == [1, 1, 0]
    together = changes(Side(before, by_row=True), Side(after, by_row=True))
    assert together["broken"] == [
        {"where": "", "row": "matvec/block/Q4_0/exact", "before": Verdict.PASS, "after": Verdict.FAIL}
    ]
    assert (together["compared"], together["same"]) == (1, 0)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Q4_0 was wrong once and is right; Q4_K ran an older source; a GPU is wrong where the CPU isn't."""
    day_us = 86_400_000_000
    wrong = replace(line_of(Verdict.FAIL), started_us=day_us - 9, finished_us=day_us + 5)
    right = replace(line_of(), started_us=3 * day_us, finished_us=3 * day_us + 5)
    older = line_of(case=case_of("Q4_K"), source=OLD)
    other = replace(line_of(Verdict.FAIL, device=GPU), backend="cuda")
    database: Database = open_existing(database_with(tmp_path, [wrong, right, older, other]))
    return Reader(database, Holder(database))


def test_days_are_compared_as_they_ended(reader: Reader) -> None:
    found = reader.compare("at:1970-01-02", "at:1970-01-04")
    assert [(one["where"], one["row"]) for one in found["fixed"]] == [
        ("cpu-x86_64/host", "matvec/block/Q4_0/exact")
    ]
    assert (found["compared"], found["same"]) == (3, 2)


def test_boards_are_compared_by_row(reader: Reader) -> None:
    found = reader.compare(f"device:{CPU.device_class}", f"device:{GPU.device_class}")
    assert [one["row"] for one in found["broken"]] == ["matvec/block/Q4_0/exact"]
    assert [one["row"] for one in found["lost"]] == ["matvec/block/Q4_K/exact"]


def test_a_source_is_named_by_its_first_digits(reader: Reader) -> None:
    found = reader.compare("source:abab", "at:1970-01-09")
    assert (len(found["added"]), found["same"]) == (2, 1)


def test_campaigns_are_compared_by_what_they_found(tmp_path: Path) -> None:
    farm = Farm(open_database(f"sqlite:///{tmp_path / 'farm.db'}"))
    for verdict in (Verdict.PASS, Verdict.FAIL):
        farm.submit([case()])
        (leased,) = farm.lease()
        farm.complete(answer(leased, verdict))
    found = Reader(farm.database, Holder(farm.database)).compare("campaign:1", "campaign:2")
    (broken,) = found["broken"]
    assert (broken["before"], broken["after"]) == (Verdict.PASS, Verdict.FAIL)
    assert (found["compared"], found["same"]) == (1, 0)


@pytest.mark.parametrize(
    ("side", "why"),
    [
        ("campaign:x", "campaign 'x' is no number; write campaign:3"),
        ("campaign:7", "no campaign 7; there are none"),
        ("source:xyz", "source 'xyz' is no digest"),
        ("source:dead", "no evidence of a source dead…"),
        ("at:yesterday", "'yesterday' is no day; write at:2026-11-29"),
        ("kin:Q4_0", "no filter named 'kin'"),
    ],
)
def test_a_side_that_names_nothing_is_said(reader: Reader, side: str, why: str) -> None:
    with pytest.raises((FarmError, UsageError), match=why):
        reader.compare(side, "at:1970-01-04")
