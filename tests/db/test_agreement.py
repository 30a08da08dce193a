"""Boards that ran the same case: what is agreement, what contradicts, and what both do to a cell's trust."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import agreement, capability, trust
from db.cell import Capability
from db.evidence import Entry, append, import_lines
from db.session import Database, Session
from kernels.evidence import Evidence, Verdict
from kernels.model import Build
from tests.db.making import BOARD, Farm, case, line

OTHER = replace(BOARD, slug="cpu-1", uuid="uuid-1")
ELSEWHERE = replace(BOARD, slug="cpu-9", uuid="uuid-9", device_class="cpu-aarch64")
A, B = "a" * 64, "b" * 64


def store(s: Session, *lines: Evidence, now_us: int = 5) -> None:
    """Stores lines one after the other, as a coordinator does."""
    for one in lines:
        append(s, [Entry(one, None, folded=True)], now_us)
        agreement.note(s, agreement.meetings(s, [one]), now_us)


def level(s: Session, slug: str = BOARD.slug) -> str:
    (found,) = agreement.levels(s, capability.cells(s, device=slug))
    return found.trust


@pytest.mark.parametrize(
    ("changes", "agrees", "differs"),
    [
        ({}, True, False),
        ({"output_digest": B}, False, True),
        ({"output_digest": B, "verdict": Verdict.FAIL}, False, True),
        ({"output_digest": B, "verdict": Verdict.CRASH}, False, False),
        ({"verdict": Verdict.ERROR}, False, False),
        ({"verdict": Verdict.SKIP}, False, False),
        ({"source_digest": "6" * 64}, False, False),
        ({"inputs_digest": B}, False, False),
        ({"device": BOARD}, False, False),
        ({"device": ELSEWHERE}, False, False),
        ({"device": ELSEWHERE, "output_digest": B}, False, True),
        ({"device": ELSEWHERE, "output_digest": B, "verdict": Verdict.FAIL}, False, False),
        ({"output_digest": ""}, False, False),
        ({"trust": "imported"}, False, False),
        ({"trust": "rented"}, True, False),
    ],
)
def test_who_agrees_and_who_differs(
    database: Database, farm: Farm, changes: dict, agrees: bool, differs: bool
) -> None:
    second = replace(line(case(1), device=OTHER, output_digest=A), **changes)
    with database.writing() as s:
        store(s, line(case(1), output_digest=A))
        met = agreement.meetings(s, [second])
        assert [bool(one.agreeing) for one in met] == [agrees] * (agrees or differs)
        assert [bool(one.differing) for one in met] == [differs] * (agrees or differs)


def test_only_the_exact_build_has_one_digest_everywhere(database: Database, farm: Farm) -> None:
    of = case(1, build=Build.DEFAULT)
    with database.writing() as s:
        store(s, line(of, output_digest=A))
        (met,) = agreement.meetings(s, [line(of, device=OTHER, output_digest=B)])
        assert [board.slug for board in met.agreeing] == [BOARD.slug]
        assert met.differing == ()


def test_two_boards_that_agree_confirm_one_anothers_cells(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), output_digest=A), line(case(2)), line(case(1), device=OTHER, output_digest=A))
        assert [level(s), level(s, slug=OTHER.slug)] == ["confirmed", "confirmed"]
        store(s, line(case(1), device=OTHER, output_digest=A, finished_us=99))  # said again, it is no more
        assert s.execute(sa.text("SELECT count(*) FROM agreement")).scalar() == 2


def test_boards_that_ran_other_cases_confirm_nothing(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), output_digest=A), line(case(2), device=OTHER, output_digest=A))
        assert [level(s), level(s, slug=OTHER.slug)] == ["own", "own"]


def test_a_cell_that_is_bad_elsewhere_is_not_confirmed_by_a_pass(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), output_digest=A), line(case(1), device=OTHER, output_digest=A))
        store(s, line(case(2), Verdict.FAIL))
        assert [level(s), level(s, slug=OTHER.slug)] == ["own", "confirmed"]


def test_a_flaky_cell_is_not_confirmed(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), Verdict.FAIL, output_digest=B), line(case(1), output_digest=A, finished_us=11))
        store(s, line(case(1), device=OTHER, output_digest=A))
        (cell,) = agreement.levels(s, capability.cells(s, device=BOARD.slug))
        assert (cell.flags, cell.trust) == (("flaky",), "own")


def test_a_board_set_aside_is_suspect_and_confirms_nobody(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), output_digest=A), line(case(1), device=OTHER, output_digest=A))
        trust.set_aside(s, OTHER.slug, "why", 9)
        assert [level(s), level(s, slug=OTHER.slug)] == ["own", "suspect"]


def test_agreement_from_before_the_last_good_exam_stays(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1), output_digest=A), line(case(1), device=OTHER, output_digest=A))
        trust.note_exam(s, OTHER.slug, True, "", 7)
        trust.set_aside(s, OTHER.slug, "why", 9)
        assert level(s) == "confirmed"


def cell_of(s: Session) -> Capability:
    return capability.cells(s)[0]


def test_a_cell_is_trusted_as_its_least_trusted_case(database: Database, farm: Farm) -> None:
    """Of each case the newest line counts: a board of one's own may run again what a stranger ran."""
    with database.writing() as s:
        store(s, line(case(1)), line(case(2)))
        assert cell_of(s).trust == "own"
        store(s, line(case(2), trust="rented", finished_us=11))
        assert cell_of(s).trust == "rented"
        import_lines(s, [line(case(3), finished_us=12)], 6)
        assert cell_of(s).trust == "imported"
        store(s, line(case(3), finished_us=13), line(case(2), finished_us=14))
        assert cell_of(s).trust == "own"
        store(s, line(case(1), trust="of his own", finished_us=15))
        assert cell_of(s).trust == "imported"
        assert capability.rebuilt(s) == capability.stored(s)
