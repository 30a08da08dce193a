"""A share of a campaign on two boards of a class, as the coordinator hands it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from farm.campaign import Order, Submitted
from farm.coordinator import Coordinator
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.conftest import DEVICE, SMALL, Clock, FakeAgent

OTHER = replace(DEVICE, slug="cpu-test-2", uuid="uuid-2")


@pytest.fixture
def all_twice(store_order: Callable[[Order, Device], Submitted]) -> Submitted:
    """Six jobs, each of which two boards are to run."""
    return store_order(Order(SMALL, ("twin",), twice=1.0), DEVICE)


@pytest.fixture
def pair(all_twice: Submitted, coordinators: Callable[[], Coordinator]) -> list[FakeAgent]:
    """Two boards of one class at one coordinator."""
    coordinator = coordinators()
    agents = [FakeAgent(coordinator), FakeAgent(coordinator, device=OTHER)]
    for agent in agents:
        agent.hello()
    return agents


def test_every_case_runs_on_both_boards_and_counts_once(
    pair: list[FakeAgent], all_twice: Submitted, coordinators: Callable[[], Coordinator]
) -> None:
    first, other = pair
    leases = first.ask().leases
    first.finish(*leases)
    asked = first.ask()
    assert (asked.leases, asked.drained) == ((), False)  # the other may pass something that is for this one
    again = other.ask().leases
    assert {lease.job_id for lease in again} == {lease.job_id for lease in leases}
    other.finish(*again[:5])
    other.finish(again[5], verdict=Verdict.FAIL)
    row = first.coordinator.progress(all_twice.campaign_id)
    assert (row.is_open, row.verdicts) == (False, ((Verdict.FAIL, 1), (Verdict.PASS, 5)))
    assert first.ask().drained


def test_where_the_other_board_falls_silent_the_first_verdict_stays(
    pair: list[FakeAgent], all_twice: Submitted, clock: Clock
) -> None:
    first, other = pair
    first.finish(*first.ask().leases)
    assert len(other.ask(2).leases) == 2
    clock.now += 7
    assert first.ask().leases == ()
    row = first.coordinator.progress(all_twice.campaign_id)
    assert (row.is_open, row.verdicts) == (False, ((Verdict.PASS, 6),))


def test_a_board_that_is_alone_runs_nothing_twice(
    all_twice: Submitted, coordinators: Callable[[], Coordinator]
) -> None:
    agent = FakeAgent(coordinators())
    agent.hello()
    agent.finish(*agent.ask().leases)
    assert not agent.coordinator.progress(all_twice.campaign_id).is_open


def test_a_line_that_waited_while_its_board_was_set_aside_is_refused(pair: list[FakeAgent]) -> None:
    """The writer does one thing after the other: what is behind the doubt comes from a board in doubt."""
    first = pair[0]
    (lease, *_) = first.ask().leases
    coordinator = first.coordinator
    hello = coordinator._known(first.worker_id, first.epoch).hello
    coordinator._roll.turn_away(DEVICE.slug)
    with pytest.raises(Exception, match="cpu-test-1 is set aside; say hello again"):
        coordinator._writer.do(
            lambda s: coordinator._complete(s, [(hello, (first.line(lease, Verdict.PASS),))])
        )
