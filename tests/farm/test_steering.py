"""pause, cancel and retry: by hand, on a campaign that a coordinator has in hand, and on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from click.testing import Result

from db import campaign, tables
from db.job import jobs_of
from db.session import Database, open_existing
from farm import steering
from farm.campaign import Submitted
from farm.cluster import head_file
from farm.cluster.head_file import HeadFile
from farm.coordinator import Coordinator
from kernels.errors import FarmError
from kernels.evidence import Verdict
from tests.farm.conftest import Clock

URL = "sqlite:///.farm/farm.db"
SMALL = ("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--shape", "1x32", "--backend", "twin")


def test_a_paused_campaign_gives_nothing_out_until_it_goes_on(
    agent, coordinator: Coordinator, database: Database, submitted: Submitted
) -> None:
    held = agent.ask(2).leases
    steering.pause(database, submitted.campaign_id, 5)
    empty = agent.ask()
    assert (empty.leases, empty.drained) == ((), True)
    agent.finish(*held)
    assert coordinator.progress(submitted.campaign_id).done == 2
    with database.writing() as s:
        campaign.unpause(s, submitted.campaign_id)
    assert len(agent.ask().leases) == 4


def test_a_cancelled_campaign_takes_back_what_was_not_started(
    agent, clock: Clock, coordinator: Coordinator, database: Database, submitted: Submitted
) -> None:
    started, *unstarted = agent.ask(3).leases
    agent.renew(started, *unstarted, started=(started,))
    coordinator.tick()
    with database.writing() as s:
        assert campaign.cancel(s, submitted.campaign_id, 5) == 5
    clock.now += 1
    assert set(agent.renew(started, *unstarted).dropped) == {lease.attempt_id for lease in unstarted}
    assert agent.ask().leases == ()
    agent.finish(started, verdict=Verdict.FAIL)
    row = coordinator.progress(submitted.campaign_id)
    assert (row.is_open, row.verdicts) == (False, ((Verdict.FAIL, 1), (Verdict.SKIP, 5)))


def test_cancelling_frees_what_a_dead_farm_had_started(
    agent, coordinator: Coordinator, database: Database, submitted: Submitted
) -> None:
    leases = agent.ask(2).leases
    agent.renew(*leases, started=leases)
    coordinator.tick()
    row = steering.cancel(database, submitted.campaign_id, 5)
    assert (row.is_open, row.verdicts) == (False, ((Verdict.SKIP, 6),))


def test_a_retry_is_a_new_campaign_of_the_bad_jobs(
    agent, coordinator: Coordinator, database: Database, submitted: Submitted, make_agent
) -> None:
    leases = agent.ask().leases
    agent.finish(*leases[:4])
    agent.finish(leases[4], verdict=Verdict.FAIL)
    agent.finish(leases[5], verdict=Verdict.ERROR)
    made = steering.retry(database, submitted.campaign_id, steering.BAD, 9)
    assert made == Submitted(submitted.campaign_id + 1, 2)
    again = agent.ask().leases
    assert {lease.case for lease in again} == {lease.case for lease in leases[4:]}
    assert {lease.inputs_digest for lease in again} == {lease.inputs_digest for lease in leases[4:]}
    with database.reading() as s:
        assert not campaign.campaign_row(s, submitted.campaign_id).is_open
        assert campaign.campaign_row(s, made.campaign_id).retry_of == submitted.campaign_id


def test_a_class_that_joins_gets_no_job_of_a_retry(
    agent, coordinator: Coordinator, database: Database, submitted: Submitted, make_agent
) -> None:
    agent.finish(*agent.ask().leases, verdict=Verdict.FAIL)
    steering.retry(database, submitted.campaign_id, steering.BAD, 9)
    other = make_agent(coordinator, device=type(agent.device)("cpu-x-1", "cpu-x", "Another", "uuid-9"))
    assert other.ask().drained


def test_a_retry_of_nothing_says_what_there_is(agent, database: Database, submitted: Submitted) -> None:
    agent.finish(*agent.ask().leases)
    with pytest.raises(FarmError, match="campaign 1 has no job that ended FAIL or CRASH: 6 PASS"):
        steering.retry(database, submitted.campaign_id, (Verdict.FAIL, Verdict.CRASH), 9)


def test_a_campaign_that_no_head_here_reads_says_so(farm: Callable[..., Result]) -> None:
    assert "the head here" not in farm(*SMALL, "--detach").stderr
    pid = os.getpid()
    head_file.write(HeadFile(pid, head_file.born(pid), "10.0.0.5:6379", (), "postgresql://farm@db/farm"))
    stored = farm(*SMALL, "--detach")
    assert stored.exit_code == 0
    assert "farm: the head here works on postgresql://farm@db/farm, and this campaign is in" in stored.stderr


def test_the_words_and_their_exit_codes(farm: Callable[..., Result]) -> None:
    assert farm(*SMALL, "--detach").exit_code == 0
    paused = farm("pause", "1")
    assert (paused.exit_code, paused.stdout) == (
        0,
        "campaign 1 is paused: 0 jobs wait; farm resume 1 goes on\n",
    )
    assert "paused; farm resume 1 goes on" in farm("status").stdout
    assert json.loads(farm("pause", "1", "--json").stdout)["paused_at"]
    resumed = farm("resume", "1", "--local", "--json")
    assert (resumed.exit_code, json.loads(resumed.stdout)["verdicts"]) == (0, {"PASS": 2})
    for word in ("pause", "cancel"):
        closed = farm(word, "1")
        assert (closed.exit_code, closed.stderr) == (
            1,
            "farm: campaign 1 is closed: all its jobs have verdicts\n",
        )
        assert farm(word, "7").exit_code == 2
        assert "no campaign 7" in farm(word, "7").stderr


def test_a_campaign_that_was_cancelled_says_so_wherever_it_is_named(farm: Callable[..., Result]) -> None:
    farm(*SMALL, "--detach")
    cancelled = farm("cancel", "1")
    assert cancelled.exit_code == 0
    assert cancelled.stdout.endswith("cancelled, closed\n")
    resumed = farm("resume", "1", "--local", "--json")
    assert resumed.exit_code == 1
    assert "campaign 1 was cancelled; farm retry 1 --verdict SKIP" in resumed.stderr
    assert "cancelled)" in farm("status").stdout


def test_a_retry_runs_and_leaves_the_first_campaign_as_it_was(farm: Callable[..., Result]) -> None:
    assert farm(*SMALL, "--local", "--json").exit_code == 0
    nothing = farm("retry", "1", "--local")
    assert (nothing.exit_code, "no job that ended FAIL or" in nothing.stderr) == (1, True)
    database = open_existing(URL)
    with database.writing() as s:
        (first, _) = jobs_of(s, 1)
        s.execute(sa.update(tables.job).where(tables.job.c.id == first.id).values(verdict="FAIL"))
    again = farm("retry", "1", "--verdict", "fail", "--local", "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["jobs"] == 1
    with database.reading() as s:
        assert campaign.campaign_row(s, 1).bad == 1
    assert "retry of 1" in farm("status").stdout
    database.close()
