"""A token that names no board may speak for those that nobody else has, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from db import device, owner, token
from db.session import Database
from farm.coordinator import Coordinator
from kernels import catalog, codec
from kernels.evidence import Verdict
from tests.farm.conftest import DEVICE, FakeAgent
from workers.protocol import Ask, Complete, Hello, StaleEpoch, Welcome

OTHER = replace(DEVICE, slug="cpu-test-2", uuid="uuid-2")
ALIEN = replace(DEVICE, name="not the same board")


def greet(door, secret: str, worker_id: str = "w", board=DEVICE) -> Welcome:
    return door.caller(secret).hello(Hello(worker_id, board, ("twin",), catalog.digest()))


def test_a_glob_token_may_not_speak_for_a_board_of_the_farms_own(
    door, agent: FakeAgent, database: Database
) -> None:
    agent.hello()  # by another road
    said = greet(door, door.token(devices="cpu-*"), board=ALIEN)
    assert not said.accepted
    assert said.reason == (
        "board cpu-test-1 is this farm's own, and this token is for cpu-*; "
        "farm token new NAME --device cpu-test-1 makes one that may speak for it"
    )
    with database.reading() as s:
        assert device.newest(s, DEVICE.slug) == DEVICE
    assert agent.ask().leases


def test_a_glob_token_may_not_speak_for_another_tokens_board_until_that_one_ends(
    door, database: Database
) -> None:
    mine, other = door.token(), door.token("other")
    assert greet(door, mine).accepted
    said = greet(door, other, "v")
    assert (said.accepted, said.reason.partition(",")[0]) == (False, "board cpu-test-1 is another token's")
    assert "bench" not in said.reason
    with pytest.raises(StaleEpoch):
        door.caller(other).lease(Ask("v", said.epoch, 1))
    with database.writing() as s:
        token.revoke(s, "bench", door.now_us)
    assert greet(door, other, "v").accepted


def test_a_token_that_names_the_board_may_speak_for_it_whosever_it_is(door, agent: FakeAgent) -> None:
    agent.hello()
    named = door.token("named", devices="CPU-test-1")
    assert greet(door, named).accepted
    assert agent.ask().leases  # and turns nobody away who may as well
    assert greet(door, named, "w2").accepted
    assert greet(door, door.token("class", devices="cpu-test"), "v").accepted is False


def test_the_same_token_speaks_for_its_board_after_a_restart(
    door, coordinators: Callable[[], Coordinator], database: Database
) -> None:
    mine, other = door.token(), door.token("other")
    assert greet(door, mine).accepted
    again = coordinators()
    ids = {}
    with database.reading() as s:
        ids = {row.name: row.id for row in token.tokens(s)}
    said = [
        again.hello(Hello(name, DEVICE, ("twin",), catalog.digest(), token_id=ids[name]))
        for name in ("bench", "other")
    ]
    assert [one.accepted for one in said] == [True, False]
    assert other != mine


def test_a_board_that_joins_by_another_road_turns_a_glob_token_out(door, agent: FakeAgent) -> None:
    secret = door.token()
    epoch = greet(door, secret).epoch
    assert agent.hello().accepted
    with pytest.raises(StaleEpoch):
        door.caller(secret).lease(Ask("w", epoch, 1))
    assert not greet(door, secret).accepted
    assert agent.ask().leases


def test_a_token_that_names_the_board_takes_it_from_a_glob_token(door) -> None:
    secret, named = door.token(), door.token("named", devices=DEVICE.slug)
    epoch = greet(door, secret).epoch
    assert greet(door, named, "v").accepted
    with pytest.raises(StaleEpoch):
        door.caller(secret).lease(Ask("w", epoch, 1))
    assert not greet(door, secret).accepted


def test_a_line_about_another_board_is_refused_though_the_token_covers_it(door, agent: FakeAgent) -> None:
    agent.hello()
    (lease, *_), secret = agent.ask().leases, door.token()
    epoch = greet(door, secret, board=OTHER).epoch
    forged = codec.canonical(Complete("w", epoch, (agent.line(lease, Verdict.FAIL),)))
    assert door.post("complete", forged, secret) == (
        403,
        "a line about cpu-test-1 from a worker that speaks for cpu-test-2",
    )


def test_a_worker_does_not_say_itself_with_which_token_it_came(door, agent: FakeAgent) -> None:
    """Neither none, as boards of the farm's own do, nor another's."""
    agent.hello()
    secret = door.token()
    for claimed in (0, 2):
        hello = Hello("w", DEVICE, ("twin",), catalog.digest(), token_id=claimed)
        assert not door.caller(secret).hello(hello).accepted


def test_a_worker_speaks_for_one_board(door) -> None:
    mine = door.token()
    assert greet(door, mine).accepted
    status, said = door.post("hello", codec.canonical(Hello("w", OTHER, ("twin",), catalog.digest())), mine)
    assert (status, said) == (
        403, "worker w speaks for cpu-test-1; cpu-test-2 needs a worker with an id of its own"
    )  # fmt: skip
    assert greet(door, mine, "w2", OTHER).accepted


def test_a_token_has_so_many_boards_and_states_of_boards(door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "MOST_STATES", 3)
    mine = door.token()
    updated = replace(DEVICE, fingerprint=(("driver", "2"),))
    assert [greet(door, mine, board=board).accepted for board in (DEVICE, updated, DEVICE)] == [True] * 3
    assert greet(door, mine, "v", OTHER).accepted
    for worker_id, board in (("w", replace(updated, name="3")), ("u", replace(OTHER, slug="cpu-test-3"))):
        said = greet(door, mine, worker_id, board)
        assert (said.accepted, said.reason) == (
            False,
            "this token has spoken for 3 boards and states of boards, and that is the most; "
            "farm token new makes another token",
        )
    assert greet(door, mine, board=updated).accepted  # it is known
    assert greet(door, door.token("other"), "u", replace(OTHER, slug="cpu-test-3")).accepted


def test_a_token_has_so_many_classes(door, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class gets the jobs of every open campaign."""
    monkeypatch.setattr(owner, "MOST_CLASSES", 2)
    mine = door.token()
    boards = [replace(DEVICE, device_class=f"class-{n}", slug=f"class-{n}-1") for n in range(3)]
    said = [greet(door, mine, board.slug, board) for board in boards]
    assert [one.accepted for one in said] == [True, True, False]
    assert said[2].reason == (
        "this token has spoken for 2 classes, and that is the most; farm token new makes another token"
    )
    with database.reading() as s:
        assert {row.device.device_class for row in device.devices(s)} == {"class-0", "class-1"}
