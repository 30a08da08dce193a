"""Boards that are examined, set aside and readmitted, and the lines and jobs that this touches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import device, trust
from db.campaign import close_finished
from db.capability import cell, rebuilt, stored
from db.check import broken_rules
from db.evidence import Entry, append, key_of
from db.queue import Worker
from db.session import Database, Session
from kernels.errors import UsageError
from kernels.evidence import Evidence, Verdict
from tests.db.making import BOARD, WORKER, Farm, answer, case, line

OTHER = replace(BOARD, slug="cpu-1", uuid="uuid-1")


def store(s: Session, *lines: Evidence, now_us: int = 5) -> None:
    append(s, [Entry(one, None, folded=True) for one in lines], now_us)


def test_a_board_that_was_never_examined_may_work(database: Database, farm: Farm) -> None:
    with database.reading() as s:
        assert trust.why_aside(s, BOARD.slug) == ""
        assert trust.standings(s) == ()


def test_a_board_set_aside_is_doubted_back_to_its_last_good_exam(database: Database, farm: Farm) -> None:
    early, late = line(case(1)), line(case(2))
    with database.writing() as s:
        store(s, early, now_us=100)
        trust.note_exam(s, BOARD.slug, True, "", 200)
        store(s, late, now_us=300)
        done = trust.set_aside(s, BOARD.slug, "a foreign digest", 400)
        assert (done.suspect, done.requeued) == (1, ())
        assert trust.why_aside(s, BOARD.slug) == "a foreign digest"
        doubted = s.execute(sa.text("SELECT evidence_id FROM evidence WHERE suspect")).scalars().all()
        assert doubted == [late.evidence_id]
        found = cell(s, key_of(late))
        assert found is not None
        assert found.flags == ("suspect",)
        assert rebuilt(s) == stored(s)


def test_jobs_of_an_open_campaign_run_again_elsewhere(database: Database, farm: Farm) -> None:
    campaign_id = farm.submit([case(1), case(2)])
    first, second = farm.lease(2)
    farm.complete(answer(first))
    with database.writing() as s:
        done = trust.set_aside(s, BOARD.slug, "why", 400)
    assert (done.suspect, done.requeued) == (1, (first.job_id,))
    assert farm.job(first.job_id).verdict is None
    other = replace(WORKER, worker_id="worker-1", device=OTHER.slug)
    with database.writing() as s:
        device.see(s, OTHER, 1)
    assert farm.lease(9, WORKER, peers=(other,)) == ()
    (again,) = farm.lease(9, other)
    farm.complete(answer(again, device=OTHER), answer(second))
    with database.writing() as s:
        assert close_finished(s, 500) == (campaign_id,)
        assert trust.set_aside(s, BOARD.slug, "once more", 600).requeued == ()  # a closed one stays closed
    assert farm.job(first.job_id).verdict is Verdict.PASS


def test_a_good_line_of_another_board_is_not_doubted(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        store(s, line(case(1)), line(case(1), device=OTHER))
        assert trust.set_aside(s, OTHER.slug, "why", 9).suspect == 1
        assert s.execute(sa.text("SELECT device FROM evidence WHERE suspect")).scalars().all() == [OTHER.slug]


def test_a_failed_exam_sets_aside(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        trust.note_exam(s, BOARD.slug, False, "the known-wrong case passed", 7)
        (one,) = trust.standings(s)
        assert (one.aside_us, one.examined_us, one.reason) == (7, None, "the known-wrong case passed")


def test_readmitting(database: Database, farm: Farm) -> None:
    with database.writing() as s:
        trust.set_aside(s, BOARD.slug, "why", 7)
        trust.readmit(s, BOARD.slug, 9)
        (one,) = trust.standings(s)
        assert (one.aside_us, one.examined_us) == (None, 9)
        with pytest.raises(UsageError, match="board 'cpu-0' isn't set aside; those that are: none"):
            trust.readmit(s, BOARD.slug, 10)


def two_boards(farm: Farm) -> Worker:
    """A second board of the class is at work."""
    with farm.database.writing() as s:
        device.see(s, OTHER, 1)
    return replace(WORKER, worker_id="worker-1", device=OTHER.slug)


def test_a_job_that_is_doubted_while_another_board_is_at_work_on_it_waits_for_that_one(
    database: Database, farm: Farm
) -> None:
    """A late line of the first board decides while the second runs; then the first is set aside."""
    other = two_boards(farm)
    farm.submit([case(1)])
    (first,) = farm.lease(1)
    farm.start([first])
    farm.lose([first])
    (held,) = farm.lease(1, other)
    line = answer(first)
    farm.complete(line)
    with database.writing() as s:
        assert trust.set_aside(s, BOARD.slug, "why", 400).requeued == (first.job_id,)
        assert broken_rules(s) == []
    assert farm.job(first.job_id).state == "leased"
    assert [outcome.decided for outcome in farm.complete(line)] == [False]  # sent again, it is no other line
    farm.complete(answer(held, Verdict.FAIL, device=OTHER))
    assert farm.job(first.job_id).verdict is Verdict.FAIL


def test_a_crash_on_a_doubted_board_is_no_kernels(database: Database, farm: Farm) -> None:
    other = two_boards(farm)
    farm.submit([case(1)])
    farm.complete(answer(*farm.lease(1), Verdict.CRASH))
    with database.writing() as s:
        trust.set_aside(s, BOARD.slug, "why", 400)
    (again,) = farm.lease(1, other)
    farm.complete(answer(again, Verdict.CRASH, device=OTHER))
    job = farm.job(again.job_id)
    assert (job.state, job.verdict, job.crashes) == ("waiting", None, 1)
