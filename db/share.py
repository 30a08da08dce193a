"""Which campaigns a worker's next jobs come from: a pure function, so that fairness can be tested alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A target with jobs that a worker may take."""

    target_id: int
    campaign_id: int
    priority: int  # higher runs first


def in_turn(waiting: Iterable[Waiting]) -> tuple[int, ...]:
    """The targets that a lease is filled from: by priority, then the older campaign's."""
    turn = sorted(waiting, key=lambda t: (-t.priority, t.campaign_id, t.target_id))
    return tuple(target.target_id for target in turn)
