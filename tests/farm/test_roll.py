"""roll: who is at work, whose board has another of its class beside it, and who is turned away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import device
from db.session import Database
from farm.coordinator import Coordinator
from farm.roll import SILENT, Roll
from kernels import catalog
from kernels.model import Device
from tests.farm.conftest import DEVICE, Clock
from workers.protocol import Ask, Hello, StaleEpoch

OTHER_CLASS = Device("rtx-3060-0", "rtx-3060", "RTX 3060", "GPU-0")


def hello(name: str, slug: str) -> Hello:
    return Hello(name, Device(slug, "cpu-x86_64", "A CPU", slug), ("host",), "catalog")


def test_who_was_not_heard_for_a_ttl_is_no_peer_until_it_calls() -> None:
    clock = Clock()
    roll = Roll(clock, ttl_s=6.0)
    roll.enter(hello("a", "cpu-0"), joined=1)
    clock.now += 4.0
    roll.enter(hello("b", "cpu-1"), joined=2)
    clock.now += 4.0
    assert [peer.device for peer in roll.peers()] == ["cpu-1"]
    assert roll.hear("a").hello.worker_id == "a"
    assert [peer.device for peer in roll.peers()] == ["cpu-0", "cpu-1"]


def test_a_board_with_two_workers_is_one_and_a_silent_one_is_none() -> None:
    clock = Clock()
    roll = Roll(clock, ttl_s=6.0)
    roll.enter(hello("a", "cpu-0"), joined=1)
    clock.now += 7.0
    for name in ("b", "c"):
        roll.enter(hello(name, "cpu-1"), joined=1)
    assert [board.slug for board in roll.boards()] == ["cpu-1"]


def test_another_board_is_another_of_the_same_class() -> None:
    roll = Roll(Clock(), ttl_s=6.0)
    mine = hello("a", "cpu-0")
    for one in (mine, hello("b", "cpu-0"), Hello("c", OTHER_CLASS, ("cuda",), "catalog")):
        roll.enter(one, joined=0)
    assert not roll.has_another(mine)
    roll.enter(hello("d", "cpu-1"), joined=0)
    assert roll.has_another(mine)


def test_a_board_is_turned_away_with_all_of_its_workers() -> None:
    roll = Roll(Clock(), ttl_s=6.0)
    for name, slug in (("a", "cpu-0"), ("b", "cpu-0"), ("c", "cpu-1")):
        roll.enter(hello(name, slug), joined=0)
    assert roll.on({"cpu-0"}) == ["a", "b"]
    roll.turn_away("cpu-0")
    assert [name in roll for name in "abc"] == [False, False, True]
    assert [peer.device for peer in roll.peers()] == ["cpu-1"]


def test_who_was_silent_for_long_is_forgotten_unless_it_holds_a_lease() -> None:
    clock = Clock()
    roll = Roll(clock, ttl_s=6.0)
    for name in "abcd":
        roll.enter(hello(name, f"cpu-{name}"), joined=0)
    roll.turn_away("cpu-b")
    clock.now += SILENT * 6.0
    assert roll.hear("c")
    clock.now += 1.0
    assert roll.forget(lambda name: name == "d") == ["a", "b"]
    assert ([name in roll for name in "abcd"], len(roll)) == ([False, False, True, True], 2)
    assert roll.hear("a") is None


def at(boot: str, name: str, slug: str = "cpu-0", backends: tuple[str, ...] = ("host",)) -> Hello:
    return replace(hello(name, slug), boot=boot, backends=backends)


def test_a_board_is_at_one_host_at_a_time() -> None:
    clock = Clock()
    roll = Roll(clock, ttl_s=6.0)
    assert roll.enter(at("one", "a"), joined=0) == ""
    assert roll.enter(at("one", "b"), joined=0) == ""  # a container beside it, or a second agent
    assert roll.enter(at("two", "c"), joined=0) == roll.elsewhere(at("two", "c"))
    assert roll.elsewhere(at("two", "c")) == (
        "board cpu-0 is at work on another host; where both are copies of one image, start this one with "
        "FARM_MACHINE=NAME, which makes it a board of its own"
    )
    assert "c" not in roll
    assert roll.elsewhere(at("two", "d", "cpu-1")) == roll.elsewhere(at("", "e")) == ""
    clock.now += 7.0
    assert roll.enter(at("two", "c"), joined=0) == ""  # the first host is gone


def test_an_architecture_is_compiled_for_on_many_hosts() -> None:
    roll = Roll(Clock(), ttl_s=6.0)
    for boot, name in (("one", "a"), ("two", "b")):
        assert roll.enter(at(boot, name, "sm_86", ("nvrtc",)), joined=0) == ""


def test_a_copy_of_a_host_is_refused_and_leaves_the_board_as_it_is(
    coordinator: Coordinator, database: Database
) -> None:
    """Two machines from one image have one machine id: they would be one board, with the bits of two."""
    first = Hello("first", DEVICE, ("twin",), catalog.digest(), boot="one")
    copy = Hello("copy", replace(DEVICE, name="another CPU"), ("twin",), catalog.digest(), boot="two")
    assert coordinator.hello(first).accepted
    said = coordinator.hello(copy)
    assert (said.accepted, "FARM_MACHINE=NAME" in said.reason) == (False, True)
    with pytest.raises(StaleEpoch):
        coordinator.lease(Ask("copy", said.epoch, 1))
    with database.reading() as s:
        assert device.newest(s, DEVICE.slug) == DEVICE
    assert coordinator.hello(first).accepted
