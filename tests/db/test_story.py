"""A job's story: every turn that a job can take, in the order in which it took it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import campaign, queue, trust
from db.epoch import raise_epoch
from db.job import PlannedCase, Target, add_targets
from db.loss import LOSS_BUDGET, reclaim_all
from db.needs import Needs
from db.outcome import complete_many
from db.story import Event, story
from db.tables import target
from kernels.errors import UsageError
from kernels.evidence import Rule, Verdict
from tests.db.making import BOARD, HOST, SOURCE, WORKER, Farm, answer, case
from tests.db.test_needs import PASCAL, submit


def events(farm: Farm, job_id: int = 1) -> tuple[Event, ...]:
    with farm.database.reading() as s:
        return story(s, job_id).events


def words(farm: Farm, job_id: int = 1) -> list[tuple[int, str]]:
    return [(one.at_us, one.event) for one in events(farm, job_id)]


def test_a_job_that_passed_is_told_from_submission_to_the_end_of_its_campaign(farm: Farm) -> None:
    farm.submit([case(1)])
    leases = farm.lease()
    farm.start(leases)
    farm.complete(answer(leases[0]))
    with farm.database.writing() as s:
        campaign.close_finished(s, 21)
    assert words(farm) == [
        (1, "submitted"), (1, "made"), (2, "leased"), (3, "started"), (20, "line"), (20, "decided"),
        (21, "closed"),
    ]  # fmt: skip
    made, leased, line, decided = (events(farm)[n] for n in (1, 2, 4, 5))
    assert made.about == "for cpu-x86_64/host"
    assert (leased.attempt, leased.lease, leased.worker, leased.device) == (
        1, leases[0].attempt_id, WORKER.worker_id, BOARD.slug
    )  # fmt: skip
    assert (line.verdict, line.lease, line.late, line.copies) == (
        Verdict.PASS,
        leases[0].attempt_id,
        False,
        1,
    )
    assert line.cell == "cpu-0/host/matvec/block/Q4_K/exact"
    assert (decided.verdict, decided.evidence_id) == (Verdict.PASS, line.evidence_id)


def test_a_late_and_a_repeated_line_are_told_and_folded_nowhere(farm: Farm) -> None:
    farm.submit([case(1)])
    first = farm.lease()
    farm.lose(first)
    second = farm.lease()
    farm.complete(right := answer(second[0]))
    with farm.database.writing() as s:
        complete_many(s, farm.epoch, [right, answer(first[0], Verdict.FAIL)], 30)
    told = events(farm)
    assert [(one.at_us, one.event, one.attempt) for one in told if one.event in ("missed", "line")] == [
        (4, "missed", 1), (20, "line", 2), (30, "line", 1)
    ]  # fmt: skip
    on_time, late = (one for one in told if one.event == "line")
    assert (on_time.copies, on_time.late, late.late) == (2, False, True)
    assert "it came 2 times" in on_time.about
    assert "late: the job had its verdict" in late.about
    assert (bool(on_time.cell), late.cell) == (True, "")
    assert next(one.about for one in told if one.event == "missed") == "worker gone"


def test_a_job_whose_workers_vanish_is_told_loss_by_loss_to_its_end(farm: Farm) -> None:
    farm.submit([case(1)])
    for turn in range(LOSS_BUDGET):
        leases = farm.lease()
        farm.start(leases)
        farm.lose(leases, 4 + turn)
    told = [one for one in events(farm) if one.event in ("missed", "line", "decided")]
    assert [(one.at_us, one.event) for one in told] == [
        (4, "missed"), (4, "line"), (5, "missed"), (5, "line"), (6, "missed"), (6, "line"), (6, "decided")
    ]  # fmt: skip
    assert {one.verdict for one in told[1::2]} == {Verdict.LOST}
    assert [bool(one.cell) for one in told if one.event == "line"] == [False, False, True]
    assert all("by the coordinator" in one.about for one in told if one.event == "line")


def test_a_crash_that_counts_only_when_it_happens_again_says_so(farm: Farm) -> None:
    farm.submit([case(1)])
    farm.complete(answer(farm.lease()[0], Verdict.CRASH))
    (crashed,) = (one for one in events(farm) if one.event == "line")
    assert "a crash counts when it happens again" in crashed.about
    assert not any(one.event == "decided" for one in events(farm))
    farm.complete(replace(answer(farm.lease()[0], Verdict.CRASH), started_us=1, finished_us=2501))
    by_id = {one.evidence_id: one for one in events(farm) if one.event == "line"}
    (decided,) = (one for one in events(farm) if one.event == "decided")
    confirmed = by_id[decided.evidence_id]
    assert (len(by_id), confirmed.verdict) == (2, Verdict.CRASH)
    assert "ran for 2.5 ms" in confirmed.about
    assert "counts when" not in confirmed.about


def test_what_was_given_back_and_what_a_restart_took_is_told(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    with farm.database.writing() as s:
        queue.give_back(s, farm.epoch, [leased.attempt_id], 5)
    farm.lease()
    with farm.database.writing() as s:
        farm.epoch = raise_epoch(s, 6)
        reclaim_all(s, farm.epoch, 7)
    told = [(one.at_us, one.event, one.about) for one in events(farm) if one.event in ("returned", "missed")]
    assert told == [
        (5, "returned", "given back unstarted"), (7, "missed", "the coordinator ended before the attempt")
    ]  # fmt: skip


def test_a_cancelled_job_has_a_verdict_without_a_line(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)])
    with farm.database.writing() as s:
        campaign.pause(s, campaign_id, 8)
        campaign.cancel(s, campaign_id, 9)
        campaign.close_finished(s, 9)
    assert words(farm) == [
        (1, "submitted"), (1, "made"), (8, "paused"), (9, "decided"), (9, "cancelled"), (9, "closed")
    ]  # fmt: skip
    decided = events(farm)[3]
    assert (decided.verdict, decided.about) == (
        Verdict.SKIP, "without a line: its campaign was cancelled"
    )  # fmt: skip


def test_exams_of_its_boards_and_of_no_other_are_part_of_a_story(farm: Farm) -> None:
    farm.submit([case(1)])
    with farm.database.writing() as s:
        trust.note_exam(s, BOARD.slug, True, "", 1)
    farm.complete(answer(farm.lease()[0]))
    with farm.database.writing() as s:
        trust.set_aside(s, BOARD.slug, "it lied", 25)
    told = events(farm)
    about_boards = [one for one in told if one.event in ("exam passed", "set aside")]
    assert [(one.at_us, one.event, one.device, one.about) for one in about_boards] == [
        (1, "exam passed", "cpu-0", "its last one"), (25, "set aside", "cpu-0", "it lied")
    ]  # fmt: skip
    assert "suspect: its board was set aside" in next(one.about for one in told if one.event == "line")
    assert not any(one.event == "decided" for one in told)  # the job waits again


def test_a_retry_is_told_in_both_stories(farm: Farm) -> None:
    first = farm.submit([case(1), case(2)])
    with farm.database.writing() as s:
        again = campaign.create(
            s, selection="{}", rule=Rule.BOUND, planned=[PlannedCase(case(2), 1, SOURCE, "")],
            targets=[HOST], now_us=40, retry_of=first, priority=3,
        )  # fmt: skip
    assert events(farm, 2)[-1] == Event(40, "retried", about=f"as job 3 of campaign {again}")
    assert not any(one.event == "retried" for one in events(farm, 1))
    assert events(farm, 3)[0].about == f"campaign {again}, a retry of campaign {first}, priority 3"


def test_jobs_of_a_class_that_joined_later_were_made_then(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)])
    with farm.database.writing() as s:
        add_targets(s, campaign_id, [Target("host", "another-class")], 50)
    assert words(farm, 2) == [(1, "submitted"), (50, "made")]
    with farm.database.writing() as s:  # as an older farm left it
        s.execute(sa.update(target).values(made_us=None))
    assert events(farm, 2)[1].about == "for another-class/host, then or later"


def test_a_job_that_no_board_of_its_class_can_run_ends_with_the_coordinators_line(farm: Farm) -> None:
    submit(farm, Needs(sm=80), PASCAL)
    told = [one for one in events(farm) if one.event in ("line", "decided")]
    assert [(one.event, one.attempt, one.verdict) for one in told] == [
        ("line", 0, Verdict.SKIP), ("decided", 0, Verdict.SKIP)
    ]  # fmt: skip


def test_a_job_that_is_not_there_is_one_line(farm: Farm) -> None:
    with farm.database.reading() as s, pytest.raises(UsageError, match="no job 77"):
        story(s, 77)
