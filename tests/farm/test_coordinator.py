"""Leases, their expiry, epochs and the end of a campaign, by a clock that the test turns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import sqlalchemy as sa

from db import epoch, evidence, tables
from db.job import jobs_of
from db.loss import LOSS_BUDGET
from db.session import Database
from farm import coordinator as coordinator_module
from farm.campaign import Order, Submitted, deadline_s, plan, submit
from farm.coordinator import FLUSH_S, PATIENCE, Coordinator
from kernels.catalog import Selection
from kernels.errors import FarmError
from kernels.evidence import Rule, Verdict
from kernels.model import Device
from workers.agent import GLANCE_S
from workers.protocol import Complete, Fetch, Renew, StaleEpoch

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
ANOTHER = Device("cpu-other-1", "cpu-other", "Another processor", "uuid-2")


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every test of this module runs on both databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/farm.db"
    return str(request.getfixturevalue("postgres").clean())


def test_a_worker_gets_every_job_once(agent, coordinator, submitted: Submitted) -> None:
    first, second = agent.ask(4), agent.ask(100)
    assert (len(first.leases), len(second.leases)) == (4, 2)
    assert len({lease.job_id for lease in (*first.leases, *second.leases)}) == 6 == submitted.jobs
    assert all(lease.inputs_digest and lease.source_digest for lease in first.leases)


def test_a_campaign_closes_with_its_last_verdict(agent, coordinator, submitted: Submitted) -> None:
    leases = agent.ask().leases
    agent.finish(*leases[:5])
    assert coordinator.progress(submitted.campaign_id).is_open
    agent.finish(leases[5], verdict=Verdict.FAIL)
    row = coordinator.progress(submitted.campaign_id)
    assert not row.is_open
    assert row.verdicts == ((Verdict.FAIL, 1), (Verdict.PASS, 5))


def test_nothing_left_is_told_only_when_nothing_is_held(agent) -> None:
    leases = agent.ask().leases
    empty = agent.ask()
    assert (empty.leases, empty.drained) == ((), False)
    assert empty.retry_after_s > 0
    agent.finish(*leases)
    assert agent.ask().drained


def test_a_silent_worker_loses_its_lease_after_one_ttl(agent, clock, coordinator, submitted) -> None:
    leases = agent.ask().leases
    clock.now += 5.9
    assert agent.renew(*leases[1:]).dropped == ()
    clock.now += 0.2
    row = coordinator.progress(submitted.campaign_id)
    assert (row.waiting, row.leased) == (1, 5)
    assert agent.renew(*leases).dropped == (leases[0].attempt_id,)


def test_renewing_keeps_a_lease_for_as_long_as_it_takes(agent, clock) -> None:
    leases = agent.ask().leases
    for _ in range(20):
        clock.now += 5
        assert agent.renew(*leases).dropped == ()


def test_a_lease_that_is_renewed_for_ever_is_taken_back(agent, clock, coordinator, submitted) -> None:
    leases = agent.ask().leases
    agent.renew(*leases, started=leases[:1])
    allowed_s = PATIENCE * sum(deadline_s(lease.case) for lease in leases)
    for _ in range(int(allowed_s // 5)):
        clock.now += 5
        assert agent.renew(*leases).dropped == ()
    clock.now += 5
    agent.renew(*leases)
    clock.now += 5
    assert set(agent.renew(*leases).dropped) == {lease.attempt_id for lease in leases}
    assert coordinator.progress(submitted.campaign_id).waiting == 6


def test_what_a_worker_holds_already_comes_before_its_new_leases(agent, clock) -> None:
    first = agent.ask(3).leases
    second = agent.ask(3).leases
    for _ in range(int(PATIENCE * sum(deadline_s(lease.case) for lease in first) // 5) + 2):
        clock.now += 5
        dropped = set(agent.renew(*first, *second).dropped)
    assert dropped == {lease.attempt_id for lease in first}


def test_a_started_job_that_was_lost_goes_to_another_board_first(
    agent, clock, coordinator, make_agent
) -> None:
    twin_board = replace(agent.device, slug="cpu-test-2", uuid="uuid-9")
    leases = agent.ask().leases
    agent.renew(*leases, started=leases[:1])
    clock.now += 7
    other = make_agent(coordinator, device=twin_board)
    agent.hello()
    assert leases[0].job_id not in {lease.job_id for lease in agent.ask(100).leases}
    assert [lease.job_id for lease in other.ask(100).leases] == [leases[0].job_id]


def test_the_only_board_gets_its_lost_job_again(agent, clock, coordinator) -> None:
    leases = agent.ask().leases
    agent.renew(*leases, started=leases)
    clock.now += 7
    assert len(agent.ask().leases) == 6


def test_an_expired_job_is_leased_again_to_another(agent, clock, coordinator, make_agent) -> None:
    lost = agent.ask().leases
    clock.now += 7
    other = make_agent(coordinator)
    again = other.ask().leases
    assert {lease.job_id for lease in again} == {lease.job_id for lease in lost}
    assert not {lease.attempt_id for lease in again} & {lease.attempt_id for lease in lost}


def test_a_late_line_counts_where_its_job_still_waits(agent, clock, coordinator, submitted) -> None:
    leases = agent.ask().leases
    agent.renew(*leases, started=leases)
    clock.now += 7
    coordinator.reap()
    agent.finish(*leases)
    assert coordinator.progress(submitted.campaign_id).verdicts == ((Verdict.PASS, 6),)


def test_a_late_line_changes_no_verdict(agent, clock, coordinator, make_agent, database: Database) -> None:
    lease = agent.ask().leases[0]
    clock.now += 7
    other = make_agent(coordinator)
    other.finish(*other.ask().leases)
    (line,) = agent.finish(lease, verdict=Verdict.FAIL)
    with database.reading() as s:
        stored = evidence.get(s, line.evidence_id)
    assert stored is not None
    assert not stored.folded


def test_started_attempts_that_vanish_three_times_are_lost(agent, clock, coordinator, submitted) -> None:
    for _ in range(LOSS_BUDGET):
        leases = agent.ask().leases
        assert len(leases) == 6
        agent.renew(*leases, started=leases[:1])
        clock.now += 7
        coordinator.reap()
    row = coordinator.progress(submitted.campaign_id)
    assert row.verdicts == ((Verdict.LOST, 1),)
    assert row.waiting == 5


def test_what_is_given_back_is_leased_again_and_not_charged(agent, coordinator, database, submitted) -> None:
    leases = agent.ask().leases
    agent.renew(returned=leases)
    assert len(agent.ask().leases) == 6
    with database.reading() as s:
        assert {job.losses for job in jobs_of(s, submitted.campaign_id)} == {0}


def test_a_worker_of_an_older_epoch_says_hello_again(agent, coordinators) -> None:
    leases = agent.ask().leases
    restarted = coordinators()
    agent.coordinator = restarted
    with pytest.raises(StaleEpoch, match="hello"):
        agent.renew(*leases)
    agent.hello()
    assert agent.renew(*leases).dropped == ()
    agent.finish(*leases)


def test_the_old_coordinator_stops_when_another_has_started(agent, coordinators) -> None:
    coordinators()
    with pytest.raises(epoch.StaleEpoch, match="another coordinator"):
        agent.ask()


def test_live_leases_get_one_ttl_after_a_restart(agent, clock, coordinators, submitted) -> None:
    agent.ask()
    clock.now += 5.9
    restarted = coordinators()
    clock.now += 5.9
    assert restarted.progress(submitted.campaign_id).leased == 6
    clock.now += 0.2
    assert restarted.progress(submitted.campaign_id).waiting == 6


@pytest.mark.parametrize("words", [{"catalog_digest": "0" * 64}, {"protocol": 2}])
def test_a_worker_that_differs_is_told_so_and_gets_nothing(words, coordinator, make_agent) -> None:
    stranger = make_agent(coordinator, greet=False)
    welcome = stranger.hello(**words)
    assert not welcome.accepted
    assert "coordinator" in welcome.reason
    with pytest.raises(StaleEpoch):
        stranger.ask()


def test_a_class_that_joins_gets_jobs_of_its_own(agent, coordinator, make_agent, submitted) -> None:
    agent.finish(*agent.ask().leases[:1])
    other = make_agent(coordinator, device=ANOTHER)
    assert len(other.ask().leases) == 6
    assert coordinator.progress(submitted.campaign_id).jobs == 12


def test_a_class_at_work_has_its_jobs_before_another_could_finish(
    agent, coordinator, make_agent, database: Database
) -> None:
    busy = make_agent(coordinator, device=ANOTHER)
    order = Order(Selection(ops=("rmsnorm",)), ("twin",))
    stored = submit(database, order, plan(order), (), now_us=1)
    while leases := agent.ask().leases:
        agent.finish(*leases)
    found = coordinator.progress(stored.campaign_id)
    assert (found.is_open, found.waiting) == (True, found.done)
    while leases := busy.ask().leases:
        busy.finish(*leases)
    assert not coordinator.progress(stored.campaign_id).is_open


def test_a_class_that_the_campaign_does_not_name_gets_none(store_order, coordinators, make_agent) -> None:
    order = Order(Selection(ops=("rmsnorm",)), ("twin",), device="cpu-other*")
    store_order(order, ANOTHER)
    coordinator = coordinators()
    assert make_agent(coordinator).ask().drained
    assert make_agent(coordinator, device=ANOTHER).ask().leases


def test_a_backend_that_the_campaign_does_not_name_gets_none(coordinator, make_agent) -> None:
    assert make_agent(coordinator, backends=("host",)).ask().drained


def test_inputs_of_finished_cases_are_remembered(agent, database, submitted) -> None:
    lease = agent.ask().leases[0]
    agent.finish(lease)
    with database.reading() as s:
        known = evidence.of_case(s, lease.case.id)
    assert known[0].line.inputs_digest == lease.inputs_digest != ""


def test_a_line_about_another_source_frees_no_lease(agent, clock, coordinator, submitted) -> None:
    lease = agent.ask().leases[0]
    agent.renew(lease, started=(lease,))
    agent.finish(replace(lease, source_digest="0" * 64), verdict=Verdict.ERROR)
    row = coordinator.progress(submitted.campaign_id)
    assert row.done == 0
    clock.now += 7
    assert coordinator.progress(submitted.campaign_id).waiting == 6


def test_the_rule_comes_with_the_lease(
    store_order, coordinators: Callable[[], Coordinator], make_agent
) -> None:
    order = Order(Selection(ops=("rmsnorm",)), ("twin",), rule=Rule.EXACT)
    store_order(order, ANOTHER)
    leases = make_agent(coordinators(), device=ANOTHER).ask(1).leases
    assert [lease.rule for lease in leases] == [Rule.EXACT]


def test_what_was_begun_is_written_with_the_next_transaction(
    agent, clock, coordinator, database: Database
) -> None:
    leases = agent.ask(2).leases
    agent.renew(*leases, started=leases)
    assert states(database) == {"leased"}
    clock.now += FLUSH_S
    coordinator.reap()
    assert states(database) == {"started"}


def states(database: Database) -> set[str]:
    with database.reading() as s:
        return set(s.execute(sa.select(tables.attempt.c.state)).scalars())


def commits(coordinator: Coordinator) -> float:
    text = coordinator.recorder.metrics.text().decode()
    return float(re.search(r"farm_commit_seconds_count (\S+)", text)[1])


def test_a_heartbeat_alone_writes_nothing(agent, clock, coordinator, database: Database) -> None:
    leases = agent.ask().leases
    before = commits(coordinator)
    for _ in range(10):
        clock.now += 0.5
        agent.renew(*leases)
    assert commits(coordinator) == before
    agent.renew(returned=leases)
    assert commits(coordinator) == before + 1


def test_what_was_begun_counts_as_started_when_its_worker_is_lost(agent, clock, coordinator) -> None:
    leases = agent.ask(1).leases
    agent.renew(*leases, started=leases)
    clock.now += 7
    coordinator.reap()
    (again,) = agent.ask(100).leases[:1]
    assert again.job_id == leases[0].job_id


def test_who_asks_while_the_writer_is_behind_is_told_to_come_back(
    agent, coordinator, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_module, "BEHIND", 3)
    begun, held = Event(), Event()
    works = [coordinator._writer.put(lambda s: (begun.set(), held.wait(60)))]
    begun.wait(60)
    works += [coordinator._writer.put(lambda s: None) for _ in range(5)]
    told = agent.ask()
    assert (told.leases, told.drained) == ((), False)
    assert told.retry_after_s > GLANCE_S  # an agent asks sooner only where the writer keeps up
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(agent.ask)  # the second time it waits with the others
        while coordinator._writer.waiting < 6:
            time.sleep(0.01)
        held.set()
        assert len(again.result().leases) == submitted.jobs
    for work in works:
        work.result()


def test_workers_that_join_at_once_are_taken_in_together(
    coordinator, make_agent, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins: list[int] = []
    join = coordinator._join
    monkeypatch.setattr(coordinator, "_join", lambda s, hellos: joins.append(len(hellos)) or join(s, hellos))
    boards = [
        replace(ANOTHER, slug=f"cpu-{n}", uuid=f"uuid-{n}", device_class=f"cpu-{n % 2}") for n in range(6)
    ]
    agents = [make_agent(coordinator, greet=False, device=board) for board in boards]
    begun, held = Event(), Event()
    coordinator._writer.put(lambda s: (begun.set(), held.wait(60)))
    begun.wait(60)
    with ThreadPoolExecutor(len(agents)) as pool:
        told = [pool.submit(agent.hello) for agent in agents]
        while coordinator._writer.waiting < len(agents):
            time.sleep(0.01)
        held.set()
        assert all(future.result().accepted for future in told)
    assert joins == [6]
    assert coordinator.progress(submitted.campaign_id).jobs == 6 + 2 * 6  # once for each class that came


def test_a_line_that_cannot_be_kept_ends_its_job_and_no_other(
    agent, coordinator, submitted, database
) -> None:
    first, *others = agent.ask().leases
    made = agent.line(first, Verdict.PASS)
    broken = replace(made, reason="a\0b", inputs_digest="x" * 65)
    sent = (broken, *(agent.line(lease, Verdict.PASS) for lease in others))
    told = coordinator.complete(Complete(agent.worker_id, agent.epoch, sent))
    assert told.evidence_ids == tuple(line.evidence_id for line in sent)  # a spool need not keep it
    row = coordinator.progress(submitted.campaign_id)
    assert (row.is_open, row.done, row.bad) == (False, 6, 1)
    with database.reading() as s:
        (bad,) = jobs_of(s, submitted.campaign_id, {Verdict.ERROR})
        assert evidence.get(s, bad.evidence_id).line.reason.startswith(
            "its line can't be kept: inputs_digest"
        )


def test_a_worker_that_cannot_be_kept_is_refused(coordinator, make_agent, agent) -> None:
    other = make_agent(coordinator, greet=False, device=replace(agent.device, slug="s" * 129))
    assert other.hello().reason.startswith("device.slug 'ssss")


def test_names_that_no_database_takes_are_nobodys(agent, coordinator) -> None:
    told = coordinator.renew(Renew(agent.worker_id, agent.epoch, ("a\0b", "\ud800"), ("\0",), ("\ud800",)))
    assert told.dropped == ("a\0b", "\ud800")
    with pytest.raises(FarmError, match="no catalog"):
        coordinator.fetch(Fetch(agent.worker_id, agent.epoch, "a\0b"))
