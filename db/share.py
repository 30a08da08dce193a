"""Which campaigns a worker's next jobs come from: a pure function, so that fairness can be tested alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """Jobs of one campaign that a worker may take."""

    target_id: int
    campaign_id: int
    priority: int  # higher runs first
    jobs: int  # that wait; more than the limit need not be counted


@dataclass(frozen=True)
class Share:
    """How many jobs to take of a target."""

    target_id: int
    jobs: int


def shares(waiting: Iterable[Waiting], limit: int) -> tuple[Share, ...]:
    """What a lease of `limit` jobs takes, and in what order: by priority, then the older campaign's first."""
    chosen: list[Share] = []
    for target in sorted(waiting, key=lambda t: (-t.priority, t.campaign_id, t.target_id)):
        jobs = min(target.jobs, limit - sum(share.jobs for share in chosen))
        if jobs > 0:
            chosen.append(Share(target.target_id, jobs))
    return tuple(chosen)
