"""A cell that grows line by line is what a fold of all its lines gives, and mostly needs no fold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db import capability, refold, tables
from db.cell import Capability, Finding, fold
from db.evidence import Entry, append
from db.refold import grow
from kernels.evidence import Verdict
from kernels.model import Build
from tests.db.making import BOARD, Farm, case, comparison, line
from tests.db.test_cell import finding

OTHER = replace(BOARD, fingerprint=(("compiler", "g++ 13"),))
figures = st.sampled_from(
    [
        {},
        {"bound_ratio": 0.9, "nmse": 0.0},
        {"bit_exact": False},
        {"twin_agrees": False},
        {"positions": 11},
        {"relative_ratio": float("nan")},
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Batches as campaigns bring them: most lines pass, some repeat a case, few are something else."""
    kinds = [Verdict.PASS] * 8 + [Verdict.SKIP, Verdict.FAIL, Verdict.ERROR]
    return [
        {
            "rows": draw(st.integers(1, 4)),
            "build": draw(st.sampled_from([Build.EXACT, Build.DEFAULT])),
            "verdict": draw(st.sampled_from(kinds)),
            "finished_us": draw(st.integers(1, 20)),
            "figures": draw(figures),
            "device": draw(st.sampled_from([BOARD, BOARD, BOARD, OTHER])),
            "reason": draw(st.sampled_from(["", "", "", "flaky: crashed behind others"])),
            "trust": draw(st.sampled_from(["own", "own", "rented", "imported"])),
        }
        for _ in range(draw(st.integers(1, 5)))
    ]


def made(values: dict[str, Any]) -> Entry:
    verdict = values["verdict"]
    compared = comparison(verdict, **values["figures"]) if verdict in (Verdict.PASS, Verdict.FAIL) else None
    one = line(
        case(values["rows"], build=values["build"]),
        verdict,
        finished_us=values["finished_us"],
        comparison=compared,
        device=values["device"],
        trust=values["trust"],
    )
    return Entry(replace(one, reason=values["reason"]) if verdict is Verdict.PASS else one, None, True)


@given(batches=st.lists(lines(), min_size=1, max_size=6))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
def test_what_grows_is_what_is_folded(farm: Farm, batches: list[list[dict[str, Any]]]) -> None:
    with farm.database.writing() as s:
        for table in (tables.evidence, tables.capability):
            s.execute(table.delete())
        for batch in batches:
            append(s, [made(values) for values in batch], 20)
            assert capability.stored(s) == capability.rebuilt(s)
        s.rollback()


def test_lines_that_say_nothing_new_need_no_fold(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    plain = refold.fold_cells
    monkeypatch.setattr(refold, "fold_cells", lambda s, keys: (folded.append(len(keys)), plain(s, keys)))
    for turn in range(3):
        for rows in range(1, 9, 2):
            farm.complete(*(line(case(rows + n), finished_us=10 + turn) for n in range(2)))
    assert folded == [1] + [0] * 11
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        assert (cell.cases, cell.positions, cell.last_run_us) == (8, 80, 12)
        assert capability.rebuilt(s) == {cell.key: cell}


def grown(cell: list[Finding], *new: Finding) -> Capability | None:
    """A cell of these lines with one more."""
    was = fold(cell)
    assert was is not None
    more = [one._replace(evidence_id=f"new-{place}") for place, one in enumerate(new)]
    found = grow(was, cell, more)
    assert found is None or found == fold([*cell, *more])
    return found


def passed(case_id: str, **fields: Any) -> Finding:
    return finding(Verdict.PASS, case_id, **({"reason": "", "finished_us": 5} | fields))


PASSED = passed("a")


@pytest.mark.parametrize(
    "new",
    [
        passed("b", finished_us=9, bound_ratio=0.99),
        passed("b", finished_us=3, bit_exact=False),
        passed("b", build_digest="other", notes="spills"),
        finding(Verdict.SKIP, "b", reason="not this shape"),
        finding(Verdict.SKIP, "b", reason="not this shape", finished_us=9),
        PASSED._replace(finished_us=9),
        PASSED._replace(finished_us=1),
        passed("b", trust="rented"),
    ],
)
def test_a_pass_more_is_told_without_the_others(new: Finding) -> None:
    assert grown([PASSED], new) is not None


@pytest.mark.parametrize(
    ("cell", "new"),
    [
        ([PASSED], finding(Verdict.FAIL, "b")),
        ([PASSED], finding(Verdict.ERROR, "b")),
        ([PASSED], finding(Verdict.FAIL, "a", finished_us=9)),
        ([PASSED], finding(Verdict.ERROR, "a", finished_us=9)),
        ([PASSED], PASSED._replace(finished_us=9, positions=11)),
        ([PASSED], passed("b", reason="a word")),
        ([PASSED], passed("b", device_class="another")),
        ([PASSED], passed("b", suspect=True)),
        ([PASSED], PASSED._replace(finished_us=9, trust="rented")),
        ([passed("a", suspect=True)], passed("a", finished_us=9)),
        ([finding(Verdict.FAIL, "a")], passed("b")),
        ([finding(Verdict.SKIP, "a")], passed("b")),
        ([passed("a", twin_agrees=None)], passed("b")),
    ],
)
def test_what_only_a_fold_can_tell_is_folded(cell: list[Finding], new: Finding) -> None:
    assert grown(cell, new) is None
