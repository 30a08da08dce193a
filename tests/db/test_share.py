"""Which campaigns a lease is filled from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from db.share import Share, Waiting, shares


def test_priority_comes_before_age() -> None:
    waiting = [Waiting(1, 1, 0, 9), Waiting(2, 2, 5, 9), Waiting(3, 3, 5, 9)]
    assert shares(waiting, 20) == (Share(2, 9), Share(3, 9), Share(1, 2))


def test_a_lease_is_filled_from_the_next_campaign() -> None:
    assert shares([Waiting(1, 1, 0, 2), Waiting(2, 2, 0, 9)], 4) == (Share(1, 2), Share(2, 2))


def test_nothing_waits_and_nothing_is_asked_for() -> None:
    assert shares([], 4) == shares([Waiting(1, 1, 0, 0)], 4) == shares([Waiting(1, 1, 0, 3)], 0) == ()


targets = st.builds(Waiting, st.integers(1, 99), st.integers(1, 9), st.integers(0, 3), st.integers(0, 50))


@given(st.lists(targets, unique_by=lambda target: target.target_id), st.integers(0, 40))
def test_no_more_than_asked_for_and_nobody_is_overtaken(waiting: list[Waiting], limit: int) -> None:
    chosen = {share.target_id: share.jobs for share in shares(waiting, limit)}
    assert sum(chosen.values()) == min(limit, sum(target.jobs for target in waiting))
    left = [target for target in waiting if chosen.get(target.target_id, 0) < target.jobs]
    for target in left:
        for other in waiting:
            if (-other.priority, other.campaign_id) > (-target.priority, target.campaign_id):
                assert other.target_id not in chosen
