"""Campaigns: jobs made once each, counted, closed and never reopened."""

from __future__ import annotations

import time

import pytest

from db import campaign
from db.campaign import Target
from db.session import Database
from kernels.errors import UsageError
from kernels.model import Rule, Verdict
from tests.db.making import HOST, Farm, answer, case, planned

GPU = Target("cuda", "rtx-3060")


def test_jobs_are_made_for_every_case_and_target(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2), case(3)], [HOST, GPU])
    with farm.database.reading() as s:
        jobs = campaign.jobs_of(s, campaign_id)
    assert len(jobs) == 6
    assert {(job.case.shape["rows"], job.backend) for job in jobs} == {
        (rows, backend) for rows in (1, 2, 3) for backend in ("host", "cuda")
    }


def test_a_target_that_joins_gets_its_jobs_once(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    with farm.database.writing() as s:
        made = [campaign.add_targets(s, campaign_id, [HOST, GPU], 2) for _ in range(2)]
    assert made == [2, 0]


def test_a_case_planned_twice_is_one_job(farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(1)])
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, campaign_id).jobs == 1


def test_equal_inputs_are_neighbours(farm: Farm) -> None:
    cases = [case(1), case(2), case(1, kernel="coalesced"), case(2, kernel="coalesced")]
    campaign_id = farm.submit(cases)
    with farm.database.reading() as s:
        rows = [job.case.shape["rows"] for job in campaign.jobs_of(s, campaign_id)]
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
            campaign.add_targets(s, campaign_id, [GPU], 31)


def test_a_campaign_without_jobs_stays_open(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)], targets=[])
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 30) == ()
        assert [row.id for row in campaign.open_campaigns(s)] == [campaign_id]


def test_unknown_numbers_name_what_there_is(farm: Farm) -> None:
    with farm.database.reading() as s:
        with pytest.raises(UsageError, match="no campaign 7; there are none"):
            campaign.campaign_row(s, 7)
        with pytest.raises(UsageError, match="no job 7"):
            campaign.job_row(s, 7)
    farm.submit([case(1)])
    with farm.database.reading() as s, pytest.raises(UsageError, match="there are 1 to 1"):
        campaign.campaign_row(s, 7)


def test_inputs_are_remembered(database: Database) -> None:
    with database.writing() as s:
        campaign.remember_inputs(s, {"a" * 64: "1" * 64, "b" * 64: "2" * 64})
        campaign.remember_inputs(s, {"a" * 64: "1" * 64})
        assert campaign.known_inputs(s, ["a" * 64, "c" * 64]) == {"a" * 64: "1" * 64}


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
