"""Which campaigns a lease is filled from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from db.share import Waiting, in_turn


def test_priority_comes_before_age() -> None:
    assert in_turn([Waiting(1, 1, 0), Waiting(2, 2, 5), Waiting(3, 3, 5)]) == (2, 3, 1)


def test_an_older_campaign_comes_before_a_smaller_target() -> None:
    assert in_turn([Waiting(1, 8, 0), Waiting(2, 7, 0), Waiting(3, 7, 0)]) == (2, 3, 1)


targets = st.builds(Waiting, st.integers(1, 99), st.integers(1, 9), st.integers(0, 3))


@given(st.lists(targets, unique_by=lambda target: target.target_id), st.randoms())
def test_everyone_has_one_turn_whatever_order_they_come_in(waiting: list[Waiting], random: object) -> None:
    turn = in_turn(waiting)
    assert sorted(turn) == sorted(target.target_id for target in waiting)
    mixed = list(waiting)
    random.shuffle(mixed)
    assert in_turn(mixed) == turn
