"""Documents that claim what was run, and documents that claim more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from db.cell import CellKey
from farm.claims import DAY_US, Age, check, written
from farm.matrix import Matrix
from kernels.errors import UsageError
from kernels.evidence import Verdict
from tests.farm.grids import CPU, H200, NOW_US, capability, matrix_of

NAME = "cpu-x86_64/host/matvec/block/Q4_0/exact"
FACT = f"# A kernel\n\nIt is <!-- farm:cell {NAME} claims=host -->?<!-- farm:end --> here.\n"
TABLE = "<!-- farm:matrix device=cpu-* claims=exact -->\n<!-- farm:end -->\n"


def matrix(verdict: Verdict = Verdict.PASS, **changes: Any) -> Matrix:
    return matrix_of([capability(verdict, **{"last_run_us": NOW_US - DAY_US} | changes)], targets=[H200])


@pytest.mark.parametrize("text", [FACT, TABLE, FACT + TABLE])
def test_what_was_written_is_right_and_is_not_written_again(text: str) -> None:
    once = written(text, matrix())
    assert once != text
    assert check(once, matrix()) == ()
    later = replace(matrix(), generated_us=NOW_US + 400 * DAY_US, catalog_digest="another")
    assert written(once, later) == once


def test_a_fact_says_verdict_cases_rungs_and_day() -> None:
    assert "claims=host -->PASS, 10 cases, rungs twin host exact, 2023-11-13<!--" in written(FACT, matrix())


def test_a_table_names_boards_dates_and_sources_and_no_other_device() -> None:
    text = written(TABLE, matrix())
    assert "| matvec/block | Q4_0 | PASS |" in text
    assert "cpu-x86_64: Test CPU (cpu-x86_64-aaaa)." in text
    assert "Ran 2023-11-13T22:13:20Z to 2023-11-13T22:13:20Z; sources " in text
    assert "h200" not in text


def findings(text: str, after: Matrix, **options: Any) -> list[tuple[int, str, str]]:
    """Of a document that was right yesterday."""
    found = check(written(text, matrix()), after, **options)
    return [(one.line, one.claim, one.missing) for one in found]


def test_a_verdict_that_changed_is_a_claim_without_evidence() -> None:
    (one, two) = findings(FACT, matrix(Verdict.FAIL))
    assert one == (
        3,
        f"{NAME} says 'PASS, 10 cases, rungs twin host exact, 2023-11-13'",
        "the evidence says 'FAIL, 10 cases, rungs none, 2023-11-13'",
    )
    assert two == (3, f"{NAME} claims host of {CPU.slug}/host/matvec/block/Q4_0/exact FAIL", "no rung host")


def test_a_stale_cell_is_one_even_where_the_document_says_so() -> None:
    after = matrix(source="old")
    found = check(written(TABLE, after), after)
    assert [(one.line, one.missing) for one in found] == [
        (1, "stale: the source has changed since it ran; run it again")
    ]


def test_a_suspect_board_is_one() -> None:
    after = matrix(flags=("suspect",))
    assert [one.missing for one in check(written(FACT, after), after)] == [
        "suspect: its board is set aside; run it on another"
    ]


def test_a_rung_that_nobody_reached_is_one() -> None:
    text = FACT.replace("claims=host", "claims=host,device")
    (one,) = check(written(text, matrix()), matrix())
    assert (one.line, one.missing) == (3, "no rung device")
    (table,) = check(written(TABLE, matrix(rungs=("host",))), matrix(rungs=("host",)))
    assert table.claim == f"a matrix claims exact of {CPU.slug}/host/matvec/block/Q4_0/exact PASS"


def test_evidence_that_is_too_old_is_none() -> None:
    """Whatever ran since: the oldest of the cases that a cell rests on is what counts."""
    key = CellKey(CPU.slug, "host", "matvec", "block", "Q4_0", "exact", "now")
    oldest_us = {key: NOW_US - 3 * DAY_US}
    for text in (FACT, TABLE):
        assert findings(text, matrix(), age=Age(4 * DAY_US, oldest_us)) == []
        (one,) = findings(text, matrix(), age=Age(2 * DAY_US, oldest_us))
        assert one[2] == "a case last ran 2023-11-11: run it again"


def test_a_cell_whose_age_nobody_knows_is_too_old() -> None:
    (one,) = findings(FACT, matrix(), age=Age(9999 * DAY_US, {}))
    assert one[2] == "a case last ran 1970-01-01: run it again"


def test_evidence_that_is_gone_leaves_the_claim_alone() -> None:
    (one, two) = findings(FACT, matrix_of([], targets=[H200]))
    assert one[2] == "the evidence says 'never run'"
    assert two[2] == "no rung host"


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("farm:matrix device=h900", "2: no device matches 'h900'; there are cpu-x86_64, h200"),
        ("farm:cell h900/cuda/matvec/block/Q4_0", "2: no device named 'h900'; there are cpu-x86_64, h200"),
        ("farm:cell cpu-x86_64/host/matvec/blok/Q4_0", "2: no kernel named 'blok'; there are block"),
        ("farm:matrix claims=fast", "2: no rung named 'fast'; there are twin, host"),
        ("farm:matrix build=quick", "2: no build named 'quick'; there are exact, default"),
        ("farm:matrix since=1d", "2: no cell is left of 2; leave out --since"),
    ],
)
def test_what_was_never_seen_is_named_with_its_line(mark: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        written(f"\n<!-- {mark} --><!-- farm:end -->", matrix(last_run_us=1))
    assert str(raised.value).startswith(says)
