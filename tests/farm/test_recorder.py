"""What a coordinator counts and logs of leases, lines, misses and exams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from db.session import Database
from farm.coordinator import Coordinator
from farm.exam import Examiner
from farm.metrics import Metrics
from kernels import catalog
from kernels.evidence import Verdict
from tests.farm.conftest import Clock, FakeAgent
from workers.log import writing_to
from workers.protocol import Complete

Figures = dict[str, float]


def figures(metrics: Metrics) -> Figures:
    """Every sample by its name and labels, as Prometheus would read the text."""
    families = text_string_to_metric_families(metrics.text().decode())
    samples = [sample for family in families for sample in family.samples]
    return {"/".join((one.name, *one.labels.values())): one.value for one in samples}


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What was logged so far; used before the coordinator so that its first line is there."""
    with writing_to("tried", folder=tmp_path / "state") as path:
        yield lambda: [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_a_campaign_is_counted_from_lease_to_verdict(agent: FakeAgent, coordinator: Coordinator) -> None:
    leases = agent.ask().leases
    agent.renew(*leases[:5], started=leases[:5], returned=leases[5:])
    now = figures(coordinator.recorder.metrics)
    assert (now["farm_leases_total"], now["farm_leases_returned_total"]) == (6, 1)
    assert (now["farm_leases_live"], now["farm_boards_heard"], now["farm_epoch"]) == (5, 1, 1)
    agent.finish(*leases[:4])
    agent.finish(leases[4], verdict=Verdict.FAIL)
    now = figures(coordinator.recorder.metrics)
    assert (now["farm_verdicts_total/PASS"], now["farm_verdicts_total/FAIL"]) == (4, 1)
    assert (now["farm_lines_total"], now["farm_leases_live"], now["farm_queue_depth"]) == (5, 0, 0)
    assert now["farm_commit_seconds_count"] == now["farm_commit_works_sum"] > 4
    assert 0 < now["farm_commit_seconds_sum"] < 60


def test_misses_and_late_and_repeated_lines_are_told_apart(
    agent: FakeAgent, clock: Clock, coordinator: Coordinator, make_agent: Callable[..., FakeAgent]
) -> None:
    leases = agent.ask().leases
    clock.now += 7
    other = make_agent(coordinator)
    (line,) = other.finish(other.ask(1).leases[0])
    late = next(one for one in leases if one.case == line.case)
    agent.finish(late, verdict=Verdict.FAIL)
    coordinator.complete(Complete(other.worker_id, other.epoch, (line, line)))
    now = figures(coordinator.recorder.metrics)
    assert now["farm_misses_total"] == 6
    assert (now["farm_lines_total"], now["farm_lines_late_total"], now["farm_lines_repeated_total"]) == (
        2,
        1,
        2,
    )
    assert "farm_verdicts_total/FAIL" not in now


def test_a_board_that_was_not_heard_within_a_ttl_is_not_counted(
    agent: FakeAgent, clock: Clock, coordinator: Coordinator
) -> None:
    clock.now += 7
    assert figures(coordinator.recorder.metrics)["farm_boards_heard"] == 0


def test_two_coordinators_count_apart(agent: FakeAgent, coordinator: Coordinator, coordinators) -> None:
    agent.ask()
    another = coordinators()
    assert figures(another.recorder.metrics)["farm_leases_total"] == 0
    assert figures(coordinator.recorder.metrics)["farm_leases_total"] == 6


def test_events_say_campaign_job_lease_and_device(logged, agent: FakeAgent, clock: Clock) -> None:
    leases = agent.ask().leases
    agent.renew(*leases, started=leases[:1])
    agent.finish(leases[1])
    agent.finish(leases[2], verdict=Verdict.FAIL)
    clock.now += 7
    agent.coordinator.reap()
    began, *told = logged()
    assert (began["event"], began["held_before"]) == ("began", 0)
    assert [line["event"] for line in told] == [
        "worker joined", "leased", "started", "completed", "decided", "completed", *["missed"] * 4
    ]  # fmt: skip
    assert {line["epoch"] for line in told} == {1}
    assert {line["device"] for line in told} == {"cpu-test-1"}
    assert told[1]["jobs"] == [lease.job_id for lease in leases]
    assert told[2]["jobs"] == [leases[0].job_id]
    assert (told[4]["job"], told[4]["lease"], told[4]["verdict"]) == (
        leases[2].job_id, leases[2].attempt_id, "FAIL"
    )  # fmt: skip
    assert {line["campaign"] for line in told[1:]} == {leases[0].campaign_id}
    missed = {(line["job"], line["lease"]) for line in told[6:]}
    assert missed == {(one.job_id, one.attempt_id) for one in (leases[0], *leases[3:])}
    assert {line["reason"] for line in told[6:]} == {"its worker was silent for 6 s"}


def test_what_ended_is_forgotten(agent: FakeAgent, coordinator: Coordinator) -> None:
    leases = agent.ask().leases
    agent.renew(*leases[1:], returned=leases[:1])
    agent.finish(*leases[1:])
    assert not coordinator.recorder._held


def test_exams_are_counted_and_a_board_that_fails_is_told(
    logged, database: Database, submitted, clock: Clock
) -> None:
    coordinator = Coordinator(database, catalog.digest(), clock=clock, examiner=Examiner())
    agent = FakeAgent(coordinator)
    agent.hello()
    agent.finish(*agent.ask().leases, verdict=Verdict.PASS)  # the known-wrong kernel passes: a liar
    now = figures(coordinator.recorder.metrics)
    assert (now["farm_exams_total/failed"], now["farm_boards_set_aside_total"]) == (1, 1)
    assert now["farm_lines_total"] == 0
    assert not agent.hello().accepted
    coordinator.close()
    assert [(line["event"], line["device"]) for line in logged()[-2:]] == [
        ("set aside", "cpu-test-1"), ("worker refused", "cpu-test-1")
    ]  # fmt: skip
