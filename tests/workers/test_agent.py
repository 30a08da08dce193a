"""The agent's loop, against a coordinator and slots that do what a test says."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kernels.evidence import Evidence, Rule, Verdict
from kernels.model import Case
from tests.workers.cases import matvec_case
from workers.agent import Agent, choose
from workers.isolate import Isolated
from workers.log import writing_to
from workers.machine import cpu_device
from workers.protocol import (
    Acknowledged,
    Ask,
    Complete,
    Hello,
    Lease,
    Leases,
    Renew,
    Renewed,
    StaleEpoch,
    Unreachable,
    Welcome,
)
from workers.request import Request
from workers.runner import ended
from workers.spool import Spool

HELLO = Hello("w-1", replace(cpu_device(), slots=2), ("twin",), "c" * 64)

WELCOME = Welcome(True, "", 7, 60.0)


def lease(number: int, case: Case | None = None) -> Lease:
    case = case or matvec_case()
    return Lease(f"a-{number}", number, 1, case, "twin", "s" * 64, "i" * 64, 3, Rule.BOUND, 9.0)


@dataclass
class FakeCoordinator:
    """Leases what it has, once; `faults` are raised by the calls, one each, before anything happens."""

    leases: deque[Lease] = field(default_factory=deque)
    faults: dict[str, list[Exception]] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    welcome: Welcome = WELCOME
    stored: list[Evidence] = field(default_factory=list)
    calls: list[object] = field(default_factory=list)

    def _called(self, name: str, message: object) -> None:
        self.calls.append(message)
        if waiting := self.faults.get(name):
            raise waiting.pop(0)

    def hello(self, message: Hello) -> Welcome:
        self._called("hello", message)
        return self.welcome

    def lease(self, message: Ask) -> Leases:
        self._called("lease", message)
        given = [self.leases.popleft() for _ in range(min(message.limit, len(self.leases)))]
        return Leases(tuple(given), 0.0, drained=not self.leases)

    def renew(self, message: Renew) -> Renewed:
        self._called("renew", message)
        return Renewed(self.drop)

    def complete(self, message: Complete) -> Acknowledged:
        self._called("complete", message)
        self.stored += message.evidence
        return Acknowledged(tuple(line.evidence_id for line in message.evidence))

    def told(self, kind: type) -> list:
        return [call for call in self.calls if isinstance(call, kind)]


@dataclass
class FakeSlot:
    """Passes at once, after `during` has seen the request."""

    during: Callable[[Request], None] = lambda request: None
    asked: list[tuple[Request, float]] = field(default_factory=list)
    closed: int = 0

    def start(self) -> None: ...

    def run(self, request: Request, deadline_s: float) -> Evidence:
        self.asked.append((request, deadline_s))
        self.during(request)
        return ended(request, Verdict.PASS, "", 1, 2)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "s.jsonl")
    yield spool
    spool.close()


def with_leases(count: int, **changes: object) -> FakeCoordinator:
    return FakeCoordinator(deque(lease(number) for number in range(count)), **changes)


def test_every_lease_gets_one_line_when_all_goes_well(spool: Spool) -> None:
    coordinator, slot = with_leases(100), FakeSlot()
    summary = Agent(coordinator, HELLO, spool, lambda: slot).run()
    assert (summary.ran, summary.reason, summary.refused) == (100, "drained", False)
    assert sorted(line.attempt_id for line in coordinator.stored) == sorted(f"a-{n}" for n in range(100))
    assert len({line.evidence_id for line in coordinator.stored}) == 100
    assert (slot.closed, spool.pending()) == (2, ())


def test_lines_wait_for_others_while_cases_run(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.agent.LINGER_S", 60.0)
    coordinator, slot = with_leases(100), FakeSlot(lambda request: time.sleep(0.002))
    Agent(coordinator, HELLO, spool, lambda: slot).run()
    sizes = [len(message.evidence) for message in coordinator.told(Complete)]
    assert sum(sizes) == 100
    assert len(sizes) <= 10  # the first, some of SEND_AT and more, and what the end finds


def test_the_thread_that_talks_sleeps_between_cases(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.agent.LINGER_S", 60.0)
    looks = []
    agent = Agent(with_leases(100), HELLO, spool, lambda: FakeSlot(lambda request: time.sleep(0.002)))
    is_done = agent._is_done
    monkeypatch.setattr(agent, "_is_done", lambda: looks.append(1) or is_done())
    assert agent.run().ran == 100
    assert len(looks) <= 40  # some 90, were it woken by every case


def test_a_drained_queue_is_asked_again_once_leases_were_lost_or_another_coordinator_came(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken back waits for somebody, and the answer of before knows nothing of it."""
    coordinator = with_leases(0)
    agent = Agent(coordinator, HELLO, spool, FakeSlot)
    agent._greet()
    agent.ask()
    assert agent._is_done()
    agent._greet()
    assert not agent._is_done()
    agent.ask()
    agent._waiting.append(lease(0))
    monkeypatch.setattr(coordinator, "renew", lambda message: Renewed(("a-0",)))
    agent.renew()
    assert not agent._waiting
    assert not agent._is_done()


def test_a_line_does_not_wait_for_a_case_that_takes_long(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, sent, began = with_leases(3), threading.Event(), threading.Event()

    def long(request: Request) -> None:
        began.set()
        sent.wait(60)

    slots = iter([FakeSlot(lambda request: began.wait(60)), FakeSlot(long)])

    def complete(message: Complete) -> Acknowledged:
        told = FakeCoordinator.complete(coordinator, message)
        if len(coordinator.stored) == 2:
            sent.set()
        return told

    monkeypatch.setattr(coordinator, "complete", complete)
    assert Agent(coordinator, HELLO, spool, lambda: next(slots)).run().ran == 3
    assert sent.is_set()


def test_cases_run_in_children_of_their_own_when_slots_are_isolated(spool: Spool) -> None:
    coordinator = FakeCoordinator(deque(live_lease(number) for number in range(6)))
    hello = replace(HELLO, device=replace(HELLO.device, slots=1))
    assert Agent(coordinator, hello, spool, Isolated).run().ran == 6
    assert [line.verdict for line in coordinator.stored] == [Verdict.PASS] * 6


def live_lease(number: int) -> Lease:
    return replace(lease(number, matvec_case(rows=number + 1)), source_digest="", inputs_digest="")


def test_request_carries_what_the_lease_says(spool: Spool) -> None:
    slot = FakeSlot()
    Agent(with_leases(1), HELLO, spool, lambda: slot).run()
    ((request, deadline_s),) = slot.asked
    assert (request.attempt_id, request.source_digest, request.inputs_digest) == ("a-0", "s" * 64, "i" * 64)
    assert (request.repeats, request.device, deadline_s) == (3, HELLO.device, 9.0)


def test_agent_ends_with_the_reason_when_it_is_not_accepted(spool: Spool) -> None:
    coordinator = with_leases(3, welcome=Welcome(False, "catalog aaaa here, bbbb there", 7, 60.0))
    summary = Agent(coordinator, HELLO, spool, FakeSlot).run()
    assert (summary.ran, summary.reason, summary.refused) == (0, "catalog aaaa here, bbbb there", True)
    assert not coordinator.told(Ask)


def test_line_is_on_disk_before_it_is_sent(spool: Spool) -> None:
    coordinator = with_leases(1)
    seen: list[int] = []
    complete = coordinator.complete
    coordinator.complete = lambda m: seen.append(len(spool.pending())) or complete(m)
    Agent(coordinator, HELLO, spool, FakeSlot).run()
    assert seen == [1]


def test_lines_are_sent_again_when_the_coordinator_was_away(spool: Spool) -> None:
    coordinator = with_leases(5, faults={"complete": [Unreachable("gone")], "hello": [Unreachable("gone")]})
    summary = Agent(coordinator, HELLO, spool, FakeSlot).run()
    assert (summary.ran, len({line.evidence_id for line in coordinator.stored})) == (5, 5)
    assert len(coordinator.told(Hello)) == 3


def test_hello_is_said_again_when_the_epoch_is_over(spool: Spool) -> None:
    coordinator = with_leases(5, faults={"lease": [StaleEpoch("epoch 7 is over")]})
    assert Agent(coordinator, HELLO, spool, FakeSlot).run().ran == 5
    assert len(coordinator.told(Hello)) == 2


def test_lines_of_an_agent_that_died_are_sent_by_the_next_one(tmp_path: Path) -> None:
    dead = Spool(tmp_path / "t.jsonl")
    dead.append(ended(Request("e-1", matvec_case(), "twin", HELLO.device), Verdict.PASS, "", 1, 2))
    dead.close()
    spool, coordinator = Spool(tmp_path / "t.jsonl"), with_leases(0)
    Agent(coordinator, HELLO, spool, FakeSlot).run()
    spool.close()
    assert [line.evidence_id for line in coordinator.stored] == ["e-1"]


def test_lines_stay_in_the_spool_when_the_coordinator_stays_away(spool: Spool) -> None:
    coordinator = with_leases(1)
    agent = Agent(coordinator, HELLO, spool, lambda: FakeSlot(lambda request: agent.stop()))
    coordinator.faults["complete"] = [Unreachable("gone")] * 3
    assert agent.run().reason == "stopped"
    assert len(spool.pending()) == 1


def test_waiting_leases_are_given_back_and_running_ones_finished_when_stopped(spool: Spool) -> None:
    coordinator = with_leases(20)
    hello = replace(HELLO, device=replace(HELLO.device, slots=1))
    agent = Agent(coordinator, hello, spool, lambda: FakeSlot(lambda request: agent.stop()))
    summary = agent.run()
    assert (summary.ran, summary.reason, len(coordinator.stored)) == (1, "stopped", 1)
    (last,) = [call for call in coordinator.told(Renew) if call.returned]
    assert (len(last.returned), last.held) == (19, (coordinator.stored[0].attempt_id,))


def test_renew_tells_held_and_started_and_drops_what_was_taken_back(spool: Spool) -> None:
    coordinator = with_leases(6, drop=("a-3", "a-4"))
    hello = replace(HELLO, device=replace(HELLO.device, slots=1))

    def renew_once(request: Request) -> None:
        if request.attempt_id == "a-0":
            agent.renew()

    slot = FakeSlot(renew_once)
    agent = Agent(coordinator, hello, spool, lambda: slot)
    agent.run()
    first = coordinator.told(Renew)[0]
    assert (set(first.held), first.started, first.returned) == ({f"a-{n}" for n in range(6)}, ("a-0",), ())
    assert [request.attempt_id for request, _ in slot.asked] == ["a-0", "a-1", "a-2", "a-5"]


def test_started_is_told_again_when_the_renewal_did_not_arrive(spool: Spool) -> None:
    coordinator = with_leases(1, faults={"renew": [Unreachable("gone")]})

    def renew_twice(request: Request) -> None:
        with pytest.raises(Unreachable):
            agent.renew()
        agent.renew()

    agent = Agent(coordinator, HELLO, spool, lambda: FakeSlot(renew_twice))
    agent.run()
    assert [call.started for call in coordinator.told(Renew)[:2]] == [("a-0",), ("a-0",)]


def test_leases_are_renewed_while_a_slot_works(spool: Spool) -> None:
    coordinator = with_leases(1, welcome=Welcome(True, "", 7, 0.03))
    renewed = threading.Event()
    renew = coordinator.renew
    coordinator.renew = lambda m: renewed.set() or renew(m)
    waited: list[bool] = []
    Agent(coordinator, HELLO, spool, lambda: FakeSlot(lambda r: waited.append(renewed.wait(20)))).run()
    assert waited == [True]


def test_agent_ends_with_the_error_when_a_slot_fails(spool: Spool) -> None:
    def fail(request: Request) -> None:
        raise OSError("no space left on device")

    slot = FakeSlot(fail)
    with pytest.raises(OSError, match="no space left"):
        Agent(with_leases(4), HELLO, spool, lambda: slot).run()
    assert slot.closed == 2


def test_agent_waits_for_the_next_campaign_when_it_stays(spool: Spool) -> None:
    coordinator = with_leases(1)
    agent = Agent(coordinator, HELLO, spool, FakeSlot, stays=True)
    asked_again = threading.Event()
    answer = coordinator.lease

    def lease_or_note(message: Ask) -> Leases:
        if coordinator.stored:
            asked_again.set()
        return answer(message)

    coordinator.lease = lease_or_note
    thread = threading.Thread(target=agent.run)
    thread.start()
    assert asked_again.wait(20)
    agent.stop()
    thread.join()
    assert len(coordinator.stored) == 1


def test_only_one_lease_a_slot_is_asked_for_when_the_last_answer_was_short(spool: Spool) -> None:
    coordinator = with_leases(40)
    Agent(coordinator, HELLO, spool, FakeSlot).run()
    limits = [call.limit for call in coordinator.told(Ask)]
    assert limits[:2] == [32, 32]
    assert set(limits[2:]) == {2}


def test_slots_take_other_texts_and_stay_with_them_when_they_can() -> None:
    block, coalesced = matvec_case(), matvec_case(kernel="coalesced")
    waiting = deque([lease(0, block), lease(1, coalesced), lease(2, block)])
    assert choose(waiting, None, [block]).attempt_id == "a-1"
    assert choose(waiting, coalesced, [block]).attempt_id == "a-1"
    assert choose(waiting, block, [block]).attempt_id == "a-0"
    assert choose(deque([lease(2, block)]), coalesced, [block]).attempt_id == "a-2"


def test_an_agents_log_tells_the_jobs_it_ran_and_the_leases_it_lost(spool: Spool, tmp_path: Path) -> None:
    coordinator = with_leases(3, faults={"complete": [Unreachable("gone")]})
    with writing_to("tried", folder=tmp_path) as path:
        agent = Agent(coordinator, HELLO, spool, FakeSlot)
        agent.run()
        agent._waiting.append(lease(9))
        coordinator.drop = ("a-9",)
        agent.renew()
    told = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    assert {(line["device"], line["worker"]) for line in told} == {(HELLO.device.slug, "w-1")}
    for event in ("started", "ran"):
        of_jobs = [line for line in told if line["event"] == event]
        assert {(line["campaign"], line["job"], line["lease"]) for line in of_jobs} == {
            (1, int(each.attempt_id[2:]), each.attempt_id) for each in coordinator.stored
        }  # fmt: skip
    assert {line["verdict"] for line in told if line["event"] == "ran"} == {"PASS"}
    events = [line["event"] for line in told]
    assert [event for event in events if event not in ("leased", "started", "ran")] == [
        "accepted", "coordinator away", "accepted", "ended", "lease lost"
    ]  # fmt: skip
    assert (told[-1]["job"], told[-1]["lease"]) == (9, "a-9")
