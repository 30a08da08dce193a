"""The time that leases held boards: every microsecond once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from db import lease_time
from db.lease_time import Held, shares
from db.session import Database
from tests.db.making import BOARD, Farm, answer, case


def held(leased_us: int, ended_us: int, device: str = "a") -> Held:
    return Held(1, device, "class", "cuda", "c" * 64, leased_us, ended_us)


def charged(*leases: Held) -> list[int]:
    return [one.charged_us for one in shares(leases)]


def test_a_batch_is_charged_as_it_was_worked_through() -> None:
    assert charged(held(0, 10), held(0, 25), held(0, 40)) == [10, 15, 15]


def test_idle_time_is_nobodys() -> None:
    assert charged(held(0, 10), held(100, 130)) == [10, 30]


def test_boards_are_apart() -> None:
    assert charged(held(0, 10, "a"), held(0, 10, "b")) == [10, 10]


def test_a_lease_within_another_takes_its_time_from_it() -> None:
    assert charged(held(0, 100), held(20, 30)) == [90, 10]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=12))
def test_what_is_charged_is_the_time_in_which_any_lease_held_the_board(spans: list[tuple[int, int]]) -> None:
    leases = [held(start, start + length) for start, length in spans]
    whole = {us for start, length in spans for us in range(start, start + length)}
    found = list(shares(leases))
    assert sum(one.charged_us for one in found) == len(whole)
    assert all(0 <= one.charged_us <= one.ended_us - one.leased_us for one in found)


def test_live_leases_count_up_to_now_and_campaigns_apart(database: Database) -> None:
    farm = Farm(database)
    first = farm.submit([case(1)])
    second = farm.submit([case(2), case(3)])
    leases = {lease.campaign_id: lease for lease in farm.lease()}  # at 2
    assert set(leases) == {first, second}
    farm.complete(answer(leases[first]))  # ends at 20
    with database.reading() as s:
        both = lease_time.held(s, 30)
        mine = lease_time.held(s, 30, first)
        cells = lease_time.cells_of(s, {lease.case_id for lease in both})
    assert sum(one.charged_us for one in both) == 28
    assert [replace(one, case_id="") for one in mine] == [
        Held(first, BOARD.slug, BOARD.device_class, "host", "", 2, 20, 18)
    ]
    assert set(cells.values()) == {"matvec/block/Q4_K/exact"}
