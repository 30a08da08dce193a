"""UUIDs that sort by their time."""

from __future__ import annotations

import uuid

from kernels.ids import new_id


def test_an_id_is_a_uuid_of_version_7_with_its_time_in_front() -> None:
    made = uuid.UUID(new_id(1_764_489_600_123_456))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_764_489_600_123


def test_later_ids_sort_behind_earlier_ones_and_none_repeats() -> None:
    made = [new_id(now_us) for now_us in range(0, 1_000_000, 1000)]
    assert made == sorted(made)
    assert len({new_id(5) for _ in range(10_000)}) == 10_000
