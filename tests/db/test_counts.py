"""How much there is of what, on both databases."""

from __future__ import annotations

from db import campaign, trust
from db.counts import Counts, counts
from kernels.evidence import Verdict
from tests.db.making import BOARD, Farm, answer, case


def counted(farm: Farm) -> Counts:
    with farm.database.reading() as s:
        return counts(s)


def test_a_new_farm_has_a_board_and_nothing_else(farm: Farm) -> None:
    assert counted(farm) == Counts((), 0, 0, 1, 0)


def test_jobs_are_counted_by_state_and_verdict_over_all_campaigns(farm: Farm) -> None:
    farm.submit([case(1)])
    (only,) = farm.lease()
    farm.complete(answer(only))
    with farm.database.writing() as s:
        campaign.close_finished(s, 21)
    farm.submit([case(rows) for rows in range(1, 5)])
    passed, failed, _held = farm.lease(3)
    farm.complete(answer(passed), answer(failed, Verdict.FAIL))
    found = counted(farm)
    assert found.jobs == (
        ("done", Verdict.FAIL, 1), ("done", Verdict.PASS, 2), ("leased", None, 1), ("waiting", None, 1)
    )  # fmt: skip
    assert (found.open_campaigns, found.live_attempts) == (1, 1)


def test_boards_that_are_set_aside_are_counted_until_they_are_readmitted(farm: Farm) -> None:
    with farm.database.writing() as s:
        trust.note_exam(s, BOARD.slug, True, "", 1)
        assert counts(s).boards_aside == 0
        trust.set_aside(s, BOARD.slug, "by hand", 2)
        assert counts(s).boards_aside == 1
        trust.readmit(s, BOARD.slug, 3)
        assert counts(s).boards_aside == 0
