"""What boards hold and what they have ended, over a queue that stands still."""

from __future__ import annotations

from db import activity, bug, campaign, capability, trust
from kernels.evidence import Verdict
from tests.db.making import BOARD, Farm, answer, case, line
from tests.db.test_bug import CELL


def test_what_is_held_is_listed_with_its_case_and_what_runs_comes_first(farm: Farm) -> None:
    farm.submit([case(rows) for rows in range(1, 5)])
    _first, second, third = farm.lease(3)
    farm.start([second])
    with farm.database.reading() as s:
        found = activity.held(s)
    assert [(one.job_id, one.started_us is not None) for one in found][:1] == [(second.job_id, True)]
    assert len(found) == 3
    assert {one.device for one in found} == {BOARD.slug}
    assert {one.case for one in found if one.job_id == third.job_id} == {third.case}


def test_what_ended_is_counted_by_campaign_and_board_since_a_moment(farm: Farm) -> None:
    farm.submit([case(rows) for rows in range(1, 5)])
    first, second, third, _ = farm.lease(4)
    farm.complete(answer(first), answer(second, Verdict.FAIL))
    farm.lose([third])
    with farm.database.reading() as s:
        (found,) = activity.ended(s, 0)
        assert activity.ended(s, found.last_us + 1) == ()
    assert (found.campaign_id, found.device, found.attempts) == (1, BOARD.slug, 2)  # the lost one has no line
    assert found.first_us <= found.last_us


def test_a_farm_at_rest_holds_and_ends_nothing(farm: Farm) -> None:
    with farm.database.reading() as s:
        assert activity.held(s) == activity.ended(s, 0) == ()


def test_every_step_of_a_campaign_is_another_version_of_the_work(farm: Farm) -> None:
    seen = []

    def look() -> None:
        with farm.database.reading() as s:
            assert activity.work_version(s) == activity.work_version(s)
            seen.append(activity.work_version(s))

    look()
    farm.submit([case(1), case(2)])
    look()
    first, second = farm.lease()
    look()
    farm.start([first])
    look()
    farm.complete(answer(first))
    look()
    with farm.database.writing() as s:
        campaign.pause(s, 1, 9)
    look()
    farm.complete(answer(second))
    look()
    assert len(set(seen)) == len(seen) == 7


def test_every_change_of_what_a_matrix_shows_is_another_version_of_the_cells(farm: Farm) -> None:
    seen = []

    def look() -> None:
        with farm.database.reading() as s:
            seen.append(activity.cells_version(s))

    look()
    farm.submit([case(1)])
    look()  # a campaign alone changes no cell
    farm.complete(answer(*farm.lease()))
    look()
    with farm.database.writing() as s:
        bug.link(s, CELL, "https://bugs.example/1", 1)
    look()
    with farm.database.writing() as s:
        trust.set_aside(s, BOARD.slug, "it lies", 50)
    look()
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_trouble_that_changes_no_date_is_another_version_of_the_cells(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(2), finished_us=30))
    with farm.database.reading() as s:
        before = activity.cells_version(s)
    farm.complete(line(case(1), Verdict.LOST, finished_us=20))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        assert (cell.reason, cell.last_run_us) == ("last tried: LOST, because LOST", 30)
        assert activity.cells_version(s) != before
