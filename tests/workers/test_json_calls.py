"""The four calls as JSON: what goes in comes out, and what isn't a message is refused."""

from __future__ import annotations

from collections import deque

import pytest

from kernels.errors import FarmError
from kernels.evidence import Verdict
from tests.workers.cases import matvec_case
from tests.workers.test_agent import HELLO, FakeCoordinator, lease
from workers.json_calls import Caller, answer
from workers.protocol import Acknowledged, Ask, Complete, Leases, Renew, Renewed, StaleEpoch
from workers.request import Request
from workers.runner import ended


@pytest.fixture
def coordinator() -> FakeCoordinator:
    return FakeCoordinator(deque([lease(0), lease(1)]), drop=("a-9",))


@pytest.fixture
def caller(coordinator: FakeCoordinator) -> Caller:
    return Caller(lambda call, text: answer(coordinator, call, text))


def test_messages_and_answers_are_the_same_behind_the_wire(
    coordinator: FakeCoordinator, caller: Caller
) -> None:
    line = ended(Request("e-1", matvec_case(), "twin", HELLO.device), Verdict.PASS, "", 1, 2)
    assert caller.hello(HELLO) == coordinator.welcome
    assert caller.lease(Ask("w-1", 7, 1)) == Leases((lease(0),), 0.0, drained=False)
    assert caller.renew(Renew("w-1", 7, ("a-0", "a-9"), ("a-0",))) == Renewed(("a-9",))
    assert caller.complete(Complete("w-1", 7, (line,))) == Acknowledged(("e-1",))
    assert coordinator.calls[0] == HELLO
    assert coordinator.stored == [line]


def test_stale_epoch_crosses_as_an_answer(coordinator: FakeCoordinator, caller: Caller) -> None:
    coordinator.faults["lease"] = [StaleEpoch("epoch 7 is over")]
    with pytest.raises(StaleEpoch, match="epoch 7 is over"):
        caller.lease(Ask("w-1", 7, 1))


@pytest.mark.parametrize(
    ("call", "text", "message"),
    [
        ("close", "{}", "no call named 'close'; there are hello, lease, renew, complete"),
        ("__init__", "{}", "no call named"),
        ("lease", "hello", "not a JSON message"),
        ("lease", "[]", "Ask: got"),
        ("lease", '{"worker_id":"w","epoch":1,"limit":2,"more":3}', "no field besides"),
    ],
)
def test_what_is_no_call_is_refused(coordinator: FakeCoordinator, call: str, text: str, message: str) -> None:
    with pytest.raises(FarmError, match=message):
        answer(coordinator, call, text)
    assert coordinator.calls == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"Leases":{}}', '{"Welcome":{}}'])
def test_wrong_answer_is_one_line(text: str) -> None:
    with pytest.raises(FarmError):
        Caller(lambda call, sent: text).hello(HELLO)
