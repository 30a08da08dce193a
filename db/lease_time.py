"""How long leases held their boards: what a price by the hour is multiplied by.

held(s, now_us) -> tuple[Held, …]      # every microsecond of a board that was leased, once

Nobody saw the end of a lease whose worker or coordinator was gone: it counts for `UNSEEN_US` at most from
when its board was last heard of in that epoch, however much later somebody looks.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from db.cases import case_of
from db.session import Session
from db.tables import attempt, cases, device, job

UNSEEN_US = 900_000_000  # a rented worker gives a coordinator that is silent up after ten minutes
SEEN_ENDS = ("done", "returned")  # states of attempts whose end somebody told


@dataclass(frozen=True)
class Held:
    """A lease, and how much of its board's time is its own."""

    campaign_id: int
    device: str  # slug
    device_class: str
    backend: str
    case_id: str
    leased_us: int
    ended_us: int
    charged_us: int = 0  # of the time that it held its board


def held(
    s: Session, now_us: int, campaign_id: int | None = None, since_us: int = 0, epoch: int = 0
) -> tuple[Held, ...]:
    """The leases of all campaigns, or what of the boards' time one campaign's had; live ones up to now.

    Those that ended before `since_us` are left out: a campaign's are all later than the campaign. `epoch` is
    that of a coordinator at work, which knows that its live leases are held.
    """
    ended_us = sa.func.coalesce(attempt.c.ended_us, now_us)
    of_mine = sa.and_(attempt.c.ended_us.is_(None), attempt.c.epoch == epoch)
    is_seen = sa.or_(attempt.c.state.in_(SEEN_ENDS), of_mine)
    query = (
        sa.select(
            job.c.campaign_id, attempt.c.device, device.c.device_class, job.c.backend, job.c.case_id,
            attempt.c.leased_us, ended_us, attempt.c.epoch, is_seen,
        )
        .join_from(attempt, job)
        .join(device, device.c.slug == attempt.c.device)
        .where(ended_us >= since_us)
        .order_by(attempt.c.leased_us, attempt.c.attempt_id)
    )  # fmt: skip
    rows = s.execute(query).all()
    shared = shares(_capped(rows))
    return tuple(one for one in shared if campaign_id in (None, one.campaign_id))


def _capped(rows: Sequence[Any]) -> Iterator[Held]:
    """Leases; one whose end nobody saw ends soon after the last that was heard of its board in that epoch."""
    heard_us: defaultdict[tuple[str, int], int] = defaultdict(int)
    for _, board, *_, leased_us, ended_us, epoch, is_seen in rows:
        heard_us[board, epoch] = max(heard_us[board, epoch], ended_us if is_seen else leased_us)
    for campaign_id, board, device_class, backend, case_id, leased_us, ended_us, epoch, is_seen in rows:
        latest_us = ended_us if is_seen else heard_us[board, epoch] + UNSEEN_US
        end_us = min(ended_us, latest_us)
        yield Held(campaign_id, board, device_class, backend, case_id, leased_us, end_us)


def cells_of(s: Session, case_ids: Iterable[str]) -> dict[str, str]:
    """OP/KERNEL/KIND/BUILD of cases, by their ids."""
    wanted = set(case_ids)
    query = sa.select(cases.c.case_id, cases.c.case_json)
    found = {row.case_id: case_of(row.case_json) for row in s.execute(query) if row.case_id in wanted}
    return {key: f"{case.op}/{case.kernel}/{case.kind}/{case.build.value}" for key, case in found.items()}


def shares(leases: Iterable[Held]) -> Iterator[Held]:
    """Gives every microsecond in which a board was leased to one lease: of those that held it, to the one
    that ended first, since a board works through what it holds. What a board stood idle is nobody's.
    """
    by_device: defaultdict[str, list[Held]] = defaultdict(list)
    for lease in leases:
        by_device[lease.device].append(lease)
    for mine in by_device.values():
        yield from _shared(sorted(mine, key=lambda lease: lease.leased_us))


def _shared(leases: list[Held]) -> Iterator[Held]:
    charged = [0] * len(leases)
    holding: list[tuple[int, int]] = []  # (end, index) of those that hold the board, the first to end on top
    at, arriving = 0, 0
    while arriving < len(leases) or holding:
        if not holding:
            at = max(at, leases[arriving].leased_us)
        while arriving < len(leases) and leases[arriving].leased_us <= at:
            heapq.heappush(holding, (leases[arriving].ended_us, arriving))
            arriving += 1
        end, index = holding[0]
        until = min(end, leases[arriving].leased_us) if arriving < len(leases) else end
        charged[index] += max(0, until - at)
        at = max(at, until)
        if end <= at:
            heapq.heappop(holding)
    for lease, mine in zip(leases, charged, strict=True):
        yield replace(lease, charged_us=mine)
