"""The queue: a job is held once, decided once, and never lost."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

import pytest

from db import campaign, capability, device, evidence, outcome, queue
from db.epoch import StaleEpoch, raise_epoch
from db.loss import LOSS_BUDGET, Losses, lose, reclaim_all
from kernels.evidence import Rule, Verdict
from kernels.model import Device
from tests.db.making import BOARD, HOST, WORKER, Farm, answer, case, claim, line


def lost_until_spent(farm: Farm) -> list[Losses]:
    """Starts and loses the one waiting job until nothing is left to lease."""
    losses = []
    while leases := farm.lease():
        farm.start(leases)
        losses.append(farm.lose(leases, now_us=100 + len(losses)))
    return losses


def test_a_lease_says_all_that_a_worker_needs(farm: Farm) -> None:
    campaign_id = farm.submit([case(3)])
    (leased,) = farm.lease()
    assert (leased.case, leased.campaign_id, leased.backend) == (case(3), campaign_id, "host")
    assert (leased.repeats, leased.rule) == (1, Rule.BOUND)
    assert farm.job(leased.job_id).state == "leased"


def test_a_leased_job_is_not_leased_again(farm: Farm) -> None:
    farm.submit([case(rows) for rows in range(1, 6)])
    jobs = [leased.job_id for _ in range(3) for leased in farm.lease(2)]
    assert len(jobs) == len(set(jobs)) == 5


@pytest.mark.parametrize(
    "other", [replace(WORKER, device_class="rtx-3060"), replace(WORKER, backends=("twin", "cuda"))]
)
def test_a_worker_gets_its_own_class_and_backends_only(farm: Farm, other: queue.Worker) -> None:
    farm.submit([case(1)])
    assert farm.lease(worker=other) == ()


def test_priority_comes_before_age_and_age_before_place(farm: Farm) -> None:
    old = farm.submit([case(1), case(2)])
    new = farm.submit([case(3)])
    urgent = farm.submit([case(4)], priority=1)
    assert [leased.campaign_id for leased in farm.lease()] == [urgent, old, old, new]


def test_processes_never_share_a_job(farm: Farm, url: str) -> None:
    farm.submit([case(rows) for rows in range(1, 41)])
    work = [(url, farm.epoch, f"worker-{n}") for n in range(4)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        claimed = [job_id for jobs in pool.starmap(claim, work, chunksize=1) for job_id in jobs]
    assert len(claimed) == len(set(claimed)) == 40


def test_a_stale_epoch_is_refused_everywhere(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    with farm.database.writing() as s:
        assert raise_epoch(s, 9) == farm.epoch + 1
    calls = [
        lambda s: queue.lease(s, farm.epoch, WORKER, 1, 9),
        lambda s: queue.start(s, farm.epoch, [leased.attempt_id], 9),
        lambda s: queue.give_back(s, farm.epoch, [leased.attempt_id], 9),
        lambda s: lose(s, farm.epoch, [leased.attempt_id], 9, "gone"),
        lambda s: outcome.complete(s, farm.epoch, answer(leased), 9),
        lambda s: reclaim_all(s, farm.epoch, 9),
    ]
    for call in calls:
        with (
            pytest.raises(StaleEpoch, match="another coordinator is in charge"),
            farm.database.writing() as s,
        ):
            call(s)
    assert farm.job(leased.job_id).state == "leased"


def test_a_completed_job_has_verdict_evidence_and_cell(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    sent = answer(leased)
    (outcome,) = farm.complete(sent)
    assert (outcome.new, outcome.decided, outcome.job_id) == (True, True, leased.job_id)
    job = farm.job(leased.job_id)
    assert (job.state, job.verdict, job.evidence_id) == ("done", Verdict.PASS, sent.evidence_id)
    with farm.database.reading() as s:
        (stored,) = evidence.of_job(s, leased.job_id)
        assert (stored.line, stored.folded, stored.copies) == (sent, True, 1)
        (cell,) = capability.cells(s)
        assert (cell.verdict, cell.cases, cell.positions) == (Verdict.PASS, 1, 10)
        assert queue.live(s) == ()


def test_a_line_sent_again_counts_once(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    sent = answer(leased)
    first, again = farm.complete(sent, sent)
    (later,) = farm.complete(sent)
    assert [(o.new, o.decided) for o in (first, again, later)] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    with farm.database.reading() as s:
        stored = evidence.get(s, sent.evidence_id)
        assert stored is not None
        assert (stored.copies, stored.folded) == (3, True)
        assert capability.cells(s)[0].positions == 10


def test_an_unstarted_job_goes_back_uncharged(farm: Farm) -> None:
    farm.submit([case(1)])
    for _ in range(LOSS_BUDGET + 1):
        (leased,) = farm.lease()
        with farm.database.writing() as s:
            assert queue.give_back(s, farm.epoch, [leased.attempt_id], 4) == (leased.job_id,)
    assert (farm.job(leased.job_id).state, farm.job(leased.job_id).losses) == ("waiting", 0)


def test_a_started_job_is_not_given_back(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    farm.start([leased])
    with farm.database.writing() as s:
        assert queue.give_back(s, farm.epoch, [leased.attempt_id], 4) == ()
    assert farm.job(leased.job_id).state == "leased"


def test_an_unstarted_loss_is_neither_charged_nor_written_down(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    assert farm.lose([leased]) == Losses(requeued=(leased.job_id,))
    assert farm.job(leased.job_id).losses == 0
    with farm.database.reading() as s:
        assert evidence.of_job(s, leased.job_id) == ()


def test_a_started_loss_is_written_by_the_coordinator_and_tried_again(farm: Farm) -> None:
    farm.submit([case(1)])
    leases = farm.lease()
    farm.start(leases)
    assert farm.lose(leases) == Losses(requeued=(leases[0].job_id,))
    with farm.database.reading() as s:
        (stored,) = evidence.of_job(s, leases[0].job_id)
        assert (stored.line.origin, stored.line.verdict) == ("coordinator", Verdict.LOST)
        assert (stored.line.reason, stored.line.output_digest) == ("worker gone", "")
        assert (stored.line.device, stored.line.attempt_id) == (BOARD, leases[0].attempt_id)
        assert capability.cells(s) == ()  # it will be tried again: nothing is known of the cell
    assert farm.lease()[0].job_id == leases[0].job_id


def test_losing_an_attempt_twice_charges_once(farm: Farm) -> None:
    farm.submit([case(1)])
    leases = farm.lease()
    farm.start(leases)
    farm.lose(leases)
    assert farm.lose(leases) == Losses()
    assert farm.job(leases[0].job_id).losses == 1


def test_a_job_is_lost_when_its_budget_is_spent(farm: Farm) -> None:
    farm.submit([case(1)])
    losses = lost_until_spent(farm)
    assert [len(found.lost) for found in losses] == [0] * (LOSS_BUDGET - 1) + [1]
    job = farm.job(losses[-1].lost[0])
    assert (job.state, job.verdict, job.losses) == ("done", Verdict.LOST, LOSS_BUDGET)
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        assert (cell.verdict, cell.reason) == (Verdict.LOST, "worker gone")
        assert len(evidence.of_job(s, job.id)) == LOSS_BUDGET


def test_a_late_line_is_kept_and_linked_but_not_folded_over_a_verdict(farm: Farm) -> None:
    farm.submit([case(1)])
    (first,) = farm.lease()
    farm.start([first])
    farm.lose([first])
    (second,) = farm.lease()
    farm.complete(answer(second, Verdict.FAIL))
    (late,) = farm.complete(answer(first, finished_us=99))
    assert (late.new, late.decided, late.job_id) == (True, False, first.job_id)
    assert late.note.startswith("late")
    assert farm.job(first.job_id).verdict is Verdict.FAIL
    with farm.database.reading() as s:
        stored = evidence.get(s, late.evidence_id)
        assert stored is not None
        assert (stored.attempt_id, stored.folded) == (first.attempt_id, False)
    with farm.database.writing() as s:
        capability.rebuild(s)
        assert capability.cells(s)[0].verdict is Verdict.FAIL


def test_a_late_line_is_not_folded_over_lost(farm: Farm) -> None:
    farm.submit([case(1)])
    (first,) = farm.lease()
    with farm.database.writing() as s:
        queue.give_back(s, farm.epoch, [first.attempt_id], 3)
    lost_until_spent(farm)
    (late,) = farm.complete(answer(first, finished_us=999))
    assert not late.decided
    with farm.database.writing() as s:
        capability.rebuild(s)
        assert capability.cells(s)[0].verdict is Verdict.LOST


def test_a_late_line_decides_a_job_that_has_no_verdict_yet(farm: Farm) -> None:
    farm.submit([case(1)])
    (first,) = farm.lease()
    farm.start([first])
    farm.lose([first])
    (second,) = farm.lease()
    (outcome,) = farm.complete(answer(first))
    assert outcome.decided
    assert farm.lose([second]) == Losses()  # the job is done: nothing to try again
    assert farm.job(first.job_id).verdict is Verdict.PASS


def test_only_the_first_of_two_lines_in_one_batch_decides(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    first, second = farm.complete(answer(leased), answer(leased, Verdict.FAIL))
    assert (first.decided, second.decided) == (True, False)
    assert farm.job(leased.job_id).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ({"case": case(2), "case_id": case(2).id}, "case is"),
        ({"backend": "twin"}, "backend is twin"),
        ({"source_digest": "6" * 64}, "source is 666"),
        ({"device": replace(BOARD, slug="cpu-1")}, "device is cpu-1"),
        ({"attempt_id": "9" * 36}, "no attempt"),
    ],
)
def test_a_line_about_something_else_decides_no_job(farm: Farm, wrong: dict[str, object], note: str) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    (outcome,) = farm.complete(replace(answer(leased, Verdict.FAIL), **wrong))
    assert (outcome.new, outcome.job_id, outcome.decided) == (True, None, False)
    assert note in outcome.note
    assert farm.job(leased.job_id).state == "leased"
    with farm.database.reading() as s:
        assert [cell.verdict for cell in capability.cells(s)] == [Verdict.FAIL]


def test_a_line_imported_before_it_was_sent_still_decides(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    sent = answer(leased)
    with farm.database.writing() as s:
        evidence.import_lines(s, [sent], 15)
    (outcome,) = farm.complete(sent)
    assert (outcome.new, outcome.decided) == (False, True)


def test_the_campaigns_rule_decides_the_job_and_the_bound_the_cell(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    farm.complete(replace(answer(leased), rule=Rule.EXACT, rule_verdict=Verdict.FAIL))
    assert farm.job(leased.job_id).verdict is Verdict.FAIL
    with farm.database.reading() as s:
        assert capability.cells(s)[0].verdict is Verdict.PASS


def test_a_restart_takes_leases_back_uncharged(farm: Farm) -> None:
    farm.submit([case(1), case(2)])
    started, _ = farm.lease()
    farm.start([started])
    with farm.database.writing() as s:
        epoch = raise_epoch(s, 9)
        assert len(queue.live(s)) == 2
        assert len(reclaim_all(s, epoch, 9).requeued) == 2
        assert queue.live(s) == ()
        assert len(evidence.of_job(s, started.job_id)) == 1
    assert farm.job(started.job_id).losses == 0


def test_reclaim_leaves_this_epochs_leases_alone(farm: Farm) -> None:
    farm.submit([case(1)])
    farm.lease()
    with farm.database.writing() as s:
        assert reclaim_all(s, farm.epoch, 9) == Losses()
        assert len(queue.live(s)) == 1


def test_a_case_run_alone_is_kept_without_a_job(farm: Farm) -> None:
    (outcome,) = farm.complete(line(case(5)))
    assert (outcome.new, outcome.job_id) == (True, None)
    with farm.database.reading() as s:
        assert len(evidence.of_case(s, case(5).id)) == 1
        assert campaign.campaigns(s) == ()


OTHER = replace(WORKER, worker_id="worker-1", device="cpu-1")  # another board of the class


def lost_once(farm: Farm) -> None:
    """The one job was started here, and its worker vanished."""
    leases = farm.lease()
    farm.start(leases)
    farm.lose(leases)


def test_a_job_that_was_lost_goes_to_another_board_first(farm: Farm) -> None:
    seen(farm, OTHER)
    farm.submit([case(1)])
    lost_once(farm)
    assert farm.lease(peers=(WORKER, OTHER)) == ()
    assert farm.owes(WORKER)
    assert len(farm.lease(worker=OTHER, peers=(WORKER, OTHER))) == 1


@pytest.mark.parametrize(
    "peer",
    [
        WORKER,
        replace(WORKER, worker_id="worker-2"),  # a new worker on the same board
        replace(OTHER, backends=("twin",)),
        replace(OTHER, device_class="rtx-3060"),
    ],
)
def test_without_another_board_it_comes_back(farm: Farm, peer: queue.Worker) -> None:
    farm.submit([case(1)])
    lost_once(farm)
    assert len(farm.lease(peers=(WORKER, peer))) == 1


def test_what_was_not_started_may_come_back_to_the_same_board(farm: Farm) -> None:
    seen(farm, OTHER)
    farm.submit([case(1)])
    farm.lose(farm.lease())
    assert len(farm.lease(peers=(WORKER, OTHER))) == 1


def seen(farm: Farm, worker: queue.Worker) -> Device:
    board = replace(BOARD, slug=worker.device, uuid=worker.device)
    with farm.database.writing() as s:
        device.see(s, board, 1)
    return board


def cells_by_board(farm: Farm) -> dict[str, tuple[Verdict, tuple[str, ...]]]:
    with farm.database.writing() as s:
        before = capability.cells(s)
        capability.rebuild(s)
        assert capability.cells(s) == before
    return {cell.key.device: (cell.verdict, cell.flags) for cell in before}


def test_a_crash_on_two_boards_is_the_kernels(farm: Farm) -> None:
    board = seen(farm, OTHER)
    farm.submit([case(1)])
    first = answer(*farm.lease(peers=(WORKER, OTHER)), Verdict.CRASH)
    (outcome,) = farm.complete(first)
    assert (outcome.decided, outcome.note) == (False, "a crash counts when it happens again")
    assert cells_by_board(farm) == {}
    assert farm.lease(peers=(WORKER, OTHER)) == ()
    (again,) = farm.lease(worker=OTHER, peers=(WORKER, OTHER))
    second = answer(again, Verdict.CRASH, device=board)
    assert farm.complete(second)[0].decided
    assert farm.job(again.job_id).verdict is Verdict.CRASH
    assert farm.job(again.job_id).evidence_id == second.evidence_id
    crash = (Verdict.CRASH, ())
    assert cells_by_board(farm) == {"cpu-0": crash, "cpu-1": crash}


def test_a_crash_twice_on_the_only_board_is_the_kernels(farm: Farm) -> None:
    farm.submit([case(1)])
    for decides in (False, True):
        (leased,) = farm.lease(peers=(WORKER,))
        assert farm.complete(answer(leased, Verdict.CRASH))[0].decided is decides
    assert farm.job(leased.job_id).crashes == 2
    assert cells_by_board(farm) == {"cpu-0": (Verdict.CRASH, ())}


def test_a_crash_that_does_not_happen_again_makes_the_board_flaky(farm: Farm) -> None:
    farm.submit([case(1)])
    farm.complete(answer(*farm.lease(), Verdict.CRASH, finished_us=10))
    (leased,) = farm.lease()
    farm.complete(answer(leased, finished_us=11))
    assert farm.job(leased.job_id).verdict is Verdict.PASS
    assert cells_by_board(farm) == {"cpu-0": (Verdict.PASS, ("flaky",))}


def test_a_crash_that_another_board_does_not_have_is_kept_and_not_folded(farm: Farm) -> None:
    board = seen(farm, OTHER)
    farm.submit([case(1)])
    farm.complete(answer(*farm.lease(), Verdict.CRASH))
    (leased,) = farm.lease(worker=OTHER)
    farm.complete(answer(leased, device=board))
    assert farm.job(leased.job_id).verdict is Verdict.PASS
    assert cells_by_board(farm) == {"cpu-1": (Verdict.PASS, ())}
    with farm.database.reading() as s:
        assert len(evidence.of_job(s, leased.job_id)) == 2


def test_one_attempts_crash_counts_once_however_often_it_is_told(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    crash, other = (answer(leased, Verdict.CRASH) for _ in range(2))
    told = [*farm.complete(crash, crash, other), *farm.complete(crash, other, answer(leased, Verdict.CRASH))]
    assert [outcome.decided for outcome in told] == [False] * 6
    assert (farm.job(leased.job_id).state, farm.job(leased.job_id).crashes) == ("waiting", 1)


def test_a_late_crash_is_not_folded(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    farm.complete(answer(leased, finished_us=10))
    farm.complete(answer(leased, Verdict.CRASH, finished_us=20))
    assert cells_by_board(farm) == {"cpu-0": (Verdict.PASS, ())}


def test_a_crash_imported_before_it_was_sent_counts_all_the_same(farm: Farm) -> None:
    farm.submit([case(1)])
    for decides in (False, True):
        (leased,) = farm.lease()
        crash = answer(leased, Verdict.CRASH)
        with farm.database.writing() as s:
            evidence.import_lines(s, [crash], 15)
        assert farm.complete(crash)[0].decided is decides


def test_every_job_ends_with_one_verdict_whatever_is_lost(farm: Farm) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, 13)], [HOST])
    turn = 0
    while leases := farm.lease(5):
        farm.start(leases[:3])
        farm.complete(*(answer(leased) for leased in leases[turn % 2 : turn % 2 + 1]))
        farm.lose(leases, now_us=100 + turn)
        turn += 1
    with farm.database.writing() as s:
        assert campaign.close_finished(s, 999) == (campaign_id,)
        row = campaign.campaign_row(s, campaign_id)
        assert (row.done, row.waiting, row.leased) == (12, 0, 0)
        assert {verdict for verdict, _ in row.verdicts} == {Verdict.LOST, Verdict.PASS}
