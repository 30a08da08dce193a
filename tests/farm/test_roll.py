"""roll: who is at work, whose board has another of its class beside it, and who is turned away."""

from __future__ import annotations

from farm.roll import SILENT, Roll
from kernels.model import Device
from tests.farm.conftest import Clock
from workers.protocol import Hello

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
