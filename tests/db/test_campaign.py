"""Campaigns: jobs made once each, counted, closed and never reopened."""

from __future__ import annotations

import time

import pytest

from db import campaign, queue
from db.cases import known_inputs, remember_inputs
from db.job import Target, add_jobs, add_targets, job_row, jobs_of
from db.session import Database
from kernels.errors import FarmError, UsageError
from kernels.evidence import Rule, Verdict
from tests.db.making import HOST, Farm, answer, case, planned

GPU = Target("cuda", "rtx-3060")


def test_jobs_are_made_for_every_case_and_target(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2), case(3)], [HOST, GPU])
    with farm.database.reading() as s:
        jobs = jobs_of(s, campaign_id)
    assert len(jobs) == 6
    assert {(job.case.shape["rows"], job.backend) for job in jobs} == {
        (rows, backend) for rows in (1, 2, 3) for backend in ("host", "cuda")
    }


def test_a_target_that_joins_gets_its_jobs_once(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    with farm.database.writing() as s:
        made = [add_targets(s, campaign_id, [HOST, GPU], 2) for _ in range(2)]
    assert made == [2, 0]


def test_a_case_planned_twice_is_one_job(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(1)])
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, campaign_id).jobs == 1


def test_equal_inputs_are_neighbours(farm: Farm) -> None:
    cases = [case(1), case(2), case(1, kernel="coalesced"), case(2, kernel="coalesced")]
    campaign_id = farm.submit(cases)
    with farm.database.reading() as s:
        rows = [job.case.shape["rows"] for job in jobs_of(s, campaign_id)]
    assert rows == [1, 1, 2, 2]


def test_counts_tell_states_and_verdicts(farm: Farm) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, 7)])
    passed, failed, _ = farm.lease(3)
    farm.complete(answer(passed), answer(failed, Verdict.FAIL))
    with farm.database.reading() as s:
        row = campaign.campaign_row(s, campaign_id)
    assert (row.waiting, row.leased, row.done, row.jobs, row.bad) == (3, 1, 2, 6, 1)
    assert row.verdicts == ((Verdict.FAIL, 1), (Verdict.PASS, 1))


def test_a_campaign_closes_with_its_last_verdict(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    first, second = farm.lease()
    farm.complete(answer(first))
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 30) == ()
    farm.complete(answer(second))
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 31) == (campaign_id,)
        assert campaign.close_finished(s, 32) == ()
        assert campaign.campaign_row(s, campaign_id).closed_us == 31
        assert campaign.open_campaigns(s) == ()


def test_a_closed_campaign_takes_no_more_jobs(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)])
    farm.complete(answer(*farm.lease()))
    with farm.database.writing() as s:
        campaign.close_finished(s, 30)
        with pytest.raises(UsageError, match="is closed"):
            add_targets(s, campaign_id, [GPU], 31)


def test_a_campaign_without_jobs_stays_open(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)], targets=[])
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 30) == ()
        assert [row.id for row in campaign.open_campaigns(s)] == [campaign_id]


def test_what_a_board_that_joins_sees(farm: Farm) -> None:
    first, second = farm.submit([case(1)]), farm.submit([case(2)])
    with farm.database.writing() as s:
        campaign.cancel(s, first, 30)
        found = [(row.id, row.takes_targets) for row in campaign.still_open(s)]
        assert found == [(second, True), (first, False)]
        assert campaign.newest_open(s) == second


def test_unknown_numbers_name_what_there_is(farm: Farm) -> None:
    with farm.database.reading() as s:
        with pytest.raises(UsageError, match="no campaign 7; there are none"):
            campaign.campaign_row(s, 7)
        with pytest.raises(UsageError, match="no job 7"):
            job_row(s, 7)
    farm.submit([case(1)])
    with farm.database.reading() as s, pytest.raises(UsageError, match="there are 1 to 1"):
        campaign.campaign_row(s, 7)


def test_inputs_are_remembered(database: Database) -> None:
    with database.writing() as s:
        remember_inputs(s, {"a" * 64: "1" * 64, "b" * 64: "2" * 64})
        remember_inputs(s, {"a" * 64: "1" * 64})
        assert known_inputs(s, ["a" * 64, "c" * 64]) == {"a" * 64: "1" * 64}


def states(farm: Farm, campaign_id: int) -> list[tuple[str, Verdict | None]]:
    with farm.database.reading() as s:
        return [(job.state, job.verdict) for job in jobs_of(s, campaign_id)]


def test_a_paused_campaign_leases_nothing_until_it_goes_on(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    (held,) = farm.lease(1)
    with farm.database.writing() as s:
        assert campaign.pause(s, campaign_id, 5)
        assert not campaign.pause(s, campaign_id, 6)
        assert campaign.campaign_row(s, campaign_id).paused_us == 5
    assert farm.lease() == ()
    assert not farm.owes()
    assert farm.complete(answer(held))[0].decided  # what is held goes on
    with farm.database.writing() as s:
        campaign.unpause(s, campaign_id)
    assert len(farm.lease()) == 1


def test_a_cancelled_campaign_ends_with_what_runs(farm: Farm) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, 6)])
    done, started, unstarted = farm.lease(3)
    farm.complete(answer(done, Verdict.FAIL))
    farm.start([started])
    with farm.database.writing() as s:
        assert campaign.cancel(s, campaign_id, 30) == 3
        assert campaign.close_finished(s, 30) == ()
        assert queue.ended(s, [started.attempt_id, unstarted.attempt_id]) == {unstarted.attempt_id}
        assert campaign.campaign_row(s, campaign_id).cancelled_us == 30
    assert farm.lease() == ()
    farm.complete(answer(started))
    assert not farm.complete(answer(unstarted))[0].decided  # it had begun all the same: late
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 31) == (campaign_id,)
    skipped = ("done", Verdict.SKIP)
    assert states(farm, campaign_id) == [("done", Verdict.FAIL), ("done", Verdict.PASS), *[skipped] * 3]


@pytest.mark.parametrize("verdict", [None, Verdict.CRASH])
def test_what_ends_otherwise_in_a_cancelled_campaign_is_not_tried_again(
    farm: Farm, verdict: Verdict | None
) -> None:
    campaign_id = farm.submit([case(1)])
    leases = farm.lease()
    farm.start(leases)
    with farm.database.writing() as s:
        campaign.cancel(s, campaign_id, 30)
    if verdict:
        farm.complete(*(answer(leased, verdict) for leased in leases))
    else:
        farm.lose(leases)
    assert states(farm, campaign_id) == [("done", Verdict.SKIP)]


def test_a_cancelled_campaign_without_jobs_is_closed(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)], targets=[])
    with farm.database.writing() as s:
        assert campaign.cancel(s, campaign_id, 30) == 0
        assert campaign.close_finished(s, 30) == (campaign_id,)
        with pytest.raises(UsageError, match="is closed and takes no more"):
            add_targets(s, campaign_id, [HOST], 31)


@pytest.mark.parametrize("change", [campaign.pause, campaign.cancel])
def test_what_is_over_is_neither_paused_nor_cancelled(farm: Farm, change) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    with farm.database.writing() as s:
        with pytest.raises(UsageError, match="no campaign 7; there are 1 to 1"):
            change(s, 7, 30)
        campaign.cancel(s, campaign_id, 30)
        with pytest.raises(FarmError, match="campaign 1 is cancelled"):
            change(s, campaign_id, 31)
    other = farm.submit([case(1)])
    farm.complete(answer(*farm.lease()))
    with farm.database.writing() as s:
        campaign.close_finished(s, 32)
        with pytest.raises(FarmError, match="closed: all its jobs have verdicts"):
            change(s, other, 33)


def test_a_retry_has_the_jobs_that_it_is_given_and_no_others(farm: Farm) -> None:
    first = farm.submit([case(1), case(2)], [HOST, GPU])
    with farm.database.writing() as s:
        again = campaign.create(
            s, selection="{}", rule=Rule.BOUND, planned=planned([case(1), case(2)]), targets=[], now_us=2,
            retry_of=first,
        )  # fmt: skip
        assert add_jobs(s, again, [(case(2).id, HOST), (case(1).id, GPU)], 2) == 2
        row = campaign.campaign_row(s, again)
        assert (row.retry_of, row.takes_targets) == (first, False)
        assert campaign.campaign_row(s, first).takes_targets
        found = [(job.case, job.backend) for job in jobs_of(s, again)]
    assert found == [(case(1), "cuda"), (case(2), "host")]


def test_jobs_are_found_by_their_verdicts(farm: Farm) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, 5)])
    passed, failed, *_ = farm.lease(3)
    farm.complete(answer(passed), answer(failed, Verdict.FAIL))
    with farm.database.reading() as s:
        assert [job.id for job in jobs_of(s, campaign_id, {Verdict.FAIL})] == [failed.job_id]
        assert len(jobs_of(s, campaign_id)) == 4


def test_a_large_campaign_is_made_quickly(farm: Farm) -> None:
    cases = planned([case(rows) for rows in range(1, 1201)])
    began = time.process_time()
    with farm.database.writing() as s:
        campaign_id = campaign.create(
            s, selection="{}", rule=Rule.BOUND, planned=cases, targets=[HOST, GPU], now_us=1
        )
    assert time.process_time() - began < 2  # 0.3 s where nothing else runs
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, campaign_id).jobs == 2400
