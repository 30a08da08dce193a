"""The time that leases held boards: every microsecond once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from db import lease_time
from db.epoch import raise_epoch
from db.lease_time import Held, shares
from db.loss import reclaim_all
from db.outcome import complete_many
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


def test_a_coordinator_that_was_away_for_days_costs_a_quarter_of_an_hour(database: Database) -> None:
    """Whether its leases are live still, or were taken back by the next one."""
    farm, days_us = Farm(database), 3 * 86_400_000_000
    farm.submit([case(1), case(2)])
    farm.lease(2)  # at 2
    with database.reading() as s:
        live = lease_time.held(s, days_us)
        at_work = lease_time.held(s, days_us, epoch=farm.epoch)
    with database.writing() as s:
        reclaim_all(s, raise_epoch(s, days_us), days_us)
    with database.reading() as s:
        taken_back = lease_time.held(s, 2 * days_us)
    assert sum(one.charged_us for one in at_work) == days_us - 2  # its own coordinator knows
    for found in (live, taken_back):
        assert sum(one.charged_us for one in found) == lease_time.UNSEEN_US


def test_a_lost_workers_lease_counts_until_it_was_taken_back_and_a_long_one_that_ended_to_its_end(
    database: Database,
) -> None:
    farm = Farm(database)
    farm.submit([case(1), case(2)])
    first, second = farm.lease(2)  # at 2
    farm.lose([first], 4_000_000)
    with database.writing() as s:
        complete_many(s, farm.epoch, [answer(second)], 10 * lease_time.UNSEEN_US)
    with database.reading() as s:
        found = {one.case_id: one.charged_us for one in lease_time.held(s, 1 << 50)}
    assert found[first.case.id] == 4_000_000 - 2
    assert sum(found.values()) == 10 * lease_time.UNSEEN_US - 2


def test_two_campaigns_on_one_board_pay_for_each_moment_once(database: Database) -> None:
    farm = Farm(database)
    one, two = farm.submit([case(1), case(2)]), farm.submit([case(3)])
    farm.lease(3)
    with database.reading() as s:
        both = [lease_time.held(s, 1_000, number) for number in (one, two)]
    assert sum(lease.charged_us for found in both for lease in found) == 998


def test_a_clock_that_was_set_back_costs_nothing() -> None:
    assert charged(held(100, 40), held(50, 60)) == [10, 0]  # by their beginnings
