"""A share of the cases on two boards of a class: who gets the second look, and what becomes of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from db import campaign, check, device, evidence, second, trust
from db.job import JobRow
from db.queue import Leased, Worker, can_run
from db.session import Database
from kernels.evidence import Evidence, Rule, Verdict
from kernels.model import Device
from tests.db.making import BOARD, HOST, WORKER, Farm, answer, case, planned

OTHER = replace(BOARD, slug="cpu-1", uuid="uuid-1")
A, B = WORKER, replace(WORKER, worker_id="worker-1", device=OTHER.slug)


@pytest.fixture
def looked(farm: Farm) -> Farm:
    """Two boards of a class."""
    with farm.database.writing() as s:
        device.see(s, OTHER, 1)
    return farm


def submit(farm: Farm, rows: int = 1, share: float = 1.0) -> int:
    cases = planned([case(n + 1) for n in range(rows)])
    words = {"selection": "{}", "rule": Rule.BOUND, "twice": share}
    with farm.database.writing() as s:
        return campaign.create(s, planned=cases, targets=[HOST], now_us=1, **words)


def passed_once(farm: Farm, rows: int = 1, share: float = 1.0) -> tuple[Leased, ...]:
    """What the first board was given, after it passed and the share was asked for again."""
    submit(farm, rows, share)
    leases = farm.lease(100, A)
    farm.complete(*(answer(leased) for leased in leases))
    with farm.database.writing() as s:
        second.ask(s, [leased.job_id for leased in leases])
    return leases


def say(farm: Farm, leased: Leased, verdict: Verdict, board: Device = OTHER, us: int = 12) -> Evidence:
    line = answer(leased, verdict, device=board, finished_us=us)
    farm.complete(line)
    return line


def withdraw(farm: Farm, at_work: Sequence[Worker]) -> int:
    with farm.database.writing() as s:
        return second.withdraw(s, lambda target: any(can_run(target, one) for one in at_work), 30)


def the_job(farm: Farm, leased: Leased) -> JobRow:
    with farm.database.reading() as s:
        assert check.broken_rules(s) == []
    return farm.job(leased.job_id)


def test_the_share_is_the_same_cases_whoever_asks() -> None:
    ids = [case(rows).id for rows in range(1, 2001)]
    chosen = [one for one in ids if second.is_chosen(one, 0.05)]
    assert 70 < len(chosen) < 130
    assert {*chosen} <= {one for one in ids if second.is_chosen(one, 0.1)}
    assert not any(second.is_chosen(one, 0) for one in ids)
    assert all(second.is_chosen(one, 1) for one in ids)


def test_the_share_of_the_campaign_waits_again(looked: Farm) -> None:
    leases = passed_once(looked, rows=100, share=0.2)
    again = [leased for leased in leases if looked.job(leased.job_id).state == "waiting"]
    assert {leased.case.id for leased in again} == {
        leased.case.id for leased in leases if second.is_chosen(leased.case.id, 0.2)
    }
    assert 5 < len(again) < 40


def test_a_second_look_goes_to_another_board_and_no_other(looked: Farm) -> None:
    (leased,) = passed_once(looked)
    assert the_job(looked, leased).verdict is None
    assert looked.lease(9, A) == ()  # though nobody else is at work
    assert not looked.owes(A)
    (again,) = looked.lease(9, B)
    assert again.job_id == leased.job_id
    line = say(looked, again, Verdict.PASS)
    job = the_job(looked, leased)
    assert (job.verdict, job.evidence_id) == (Verdict.PASS, line.evidence_id)
    with looked.database.writing() as s:
        assert second.ask(s, [leased.job_id]) == ()  # it had its second look
        assert len(evidence.of_job(s, leased.job_id)) == 2


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.TIMEOUT, Verdict.REJECT])
def test_what_the_second_board_says_of_the_kernel_decides(looked: Farm, verdict: Verdict) -> None:
    (leased,) = passed_once(looked)
    say(looked, *looked.lease(9, B), verdict)
    assert the_job(looked, leased).verdict is verdict


@pytest.mark.parametrize("verdict", [Verdict.ERROR, Verdict.SKIP])
def test_a_look_that_tells_nothing_leaves_the_first_verdict(looked: Farm, verdict: Verdict) -> None:
    (leased,) = passed_once(looked)
    say(looked, *looked.lease(9, B), verdict)
    assert the_job(looked, leased).verdict is Verdict.PASS


def test_a_look_whose_workers_vanish_leaves_the_first_verdict(looked: Farm) -> None:
    (leased,) = passed_once(looked)
    for _ in range(3):
        held = looked.lease(9, B)
        looked.start(held)
        losses = looked.lose(held)
    assert losses.lost == ()
    assert the_job(looked, leased).verdict is Verdict.PASS


def test_what_failed_is_looked_at_once(looked: Farm) -> None:
    submit(looked)
    (leased,) = looked.lease(9, A)
    looked.complete(answer(leased, Verdict.FAIL))
    with looked.database.writing() as s:
        assert second.ask(s, [leased.job_id]) == ()


def test_the_first_line_sent_again_is_no_second_look(looked: Farm) -> None:
    submit(looked)
    (leased,) = looked.lease(9, A)
    line = answer(leased)
    looked.complete(line)
    with looked.database.writing() as s:
        second.ask(s, [leased.job_id])
    another = answer(leased, finished_us=40)
    assert [outcome.decided for outcome in looked.complete(line, another)] == [False, False]
    assert the_job(looked, leased).state == "waiting"


def test_a_look_is_withdrawn_when_no_board_is_left_for_it(looked: Farm) -> None:
    (leased,) = passed_once(looked)
    assert withdraw(looked, [A, B]) == 1
    assert the_job(looked, leased).state == "waiting"
    assert withdraw(looked, [A]) == 0
    job = the_job(looked, leased)
    assert (job.state, job.verdict) == ("done", Verdict.PASS)


def test_without_a_line_to_believe_a_withdrawn_look_is_a_job_as_any(looked: Farm) -> None:
    (leased,) = passed_once(looked)
    with looked.database.writing() as s:
        trust.set_aside(s, BOARD.slug, "why", 20)
    assert withdraw(looked, [A]) == 0
    assert the_job(looked, leased).state == "waiting"
    assert [again.job_id for again in looked.lease(9, B)] == [leased.job_id]


def test_a_cancelled_campaign_keeps_what_passed_once(looked: Farm) -> None:
    first, second_ = passed_once(looked, rows=2)
    (held,) = looked.lease(1, B)
    with looked.database.writing() as s:
        assert campaign.cancel(s, held.campaign_id, 20) == 0
    assert {the_job(looked, one).verdict for one in (first, second_)} == {Verdict.PASS}


def test_the_second_board_set_aside_gives_its_look_to_another(looked: Farm, database: Database) -> None:
    (leased,) = passed_once(looked)
    say(looked, *looked.lease(9, B), Verdict.PASS)
    with database.writing() as s:
        assert trust.set_aside(s, OTHER.slug, "why", 40).requeued == (leased.job_id,)
    assert [one.job_id for one in looked.lease(9, A)] == []
    assert withdraw(looked, [A]) == 0
    assert the_job(looked, leased).verdict is Verdict.PASS
