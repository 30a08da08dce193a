"""What a campaign may take before it stops by itself: dollars, and hours from its first lease on.

standings(s, now_us, epoch) -> {campaign id: Standing}   # of the open campaigns that have a limit; only reads
stop(s, found, now_us)                            # pauses those that are past it
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import sqlalchemy as sa

from db import campaign, lease_time
from db.campaign import CampaignRow, Running
from db.session import Session
from db.tables import attempt, job
from farm import hourly
from farm.campaign import order_of
from farm.cost import HOUR_US, Spent, spent, total
from kernels import codec


@dataclass(frozen=True)
class Standing:
    """Where a campaign is against its limits."""

    why: str  # which limit it has reached, and by what; empty where it may go on
    option: str = ""  # of `farm resume`, that sets the limit anew
    unpriced: tuple[str, ...] = ()  # boards that held its leases and whose dollars nobody knows

    @property
    def warning(self) -> str:
        """What --max-cost leaves out; empty where that is nothing."""
        if not self.unpriced:
            return ""
        return (
            f"--max-cost doesn't count {', '.join(self.unpriced)}: rented, and no price is known; "
            "FARM_LABELS='price=0.40 USD/h' at the worker, 0 where it is free"
        )


def standings(s: Session, now_us: int, epoch: int) -> dict[int, Standing]:
    """Of the open campaigns that have a limit and aren't paused, for the coordinator of that epoch."""
    limited = (one for one in campaign.running(s) if any(_limits(one.selection)))
    return {one.id: standing(s, one, now_us, epoch) for one in limited}


def stop(s: Session, found: Iterable[int], now_us: int) -> None:
    """Pauses campaigns, but for those that were closed meanwhile; what they hold ends by itself."""
    there = {one.id for one in campaign.running(s)}
    for campaign_id in there & set(found):
        campaign.pause(s, campaign_id, now_us)


def warnings(s: Session, rows: Iterable[CampaignRow], now_us: int) -> dict[int, str]:
    """Why open ones among campaigns are paused by a limit, and what --max-cost leaves out; by id."""
    found = {}
    for row in rows:
        if row.is_open and any(_limits(row.selection)):
            stopped = passed(s, row, now_us) if row.paused_us is not None else ""
            found[row.id] = f"stopped by itself: {stopped}" if stopped else standing(s, row, now_us).warning
    return {key: warning for key, warning in found.items() if warning}


def passed(s: Session, row: CampaignRow | Running, now_us: int) -> str:
    """Which limit a campaign has reached, by what, and how to go on; empty where it may."""
    found = standing(s, row, now_us)
    return f"{found.why}; farm resume {row.id} {found.option} with more goes on" if found.why else ""


def standing(s: Session, row: CampaignRow | Running, now_us: int, epoch: int = 0) -> Standing:
    max_usd, max_hours = _limits(row.selection)
    if max_hours and (took_us := now_us - first_lease_us(s, row.id, now_us)) >= max_hours * HOUR_US:
        return Standing(f"{took_us / HOUR_US:.2f} of {max_hours:g} hours are over", "--max-hours HOURS")
    if not max_usd:
        return Standing("")
    boards = by_board(s, row, now_us, epoch)
    usd, unpriced = total(boards).usd, tuple(sorted(one.name for one in boards if one.unpriced_us))
    is_over = usd >= Fraction(str(max_usd))
    digits = 2 if max_usd >= 1 else 4  # `farm plan` caps at fractions of a cent
    why = f"{float(usd):.{digits}f} of {max_usd:g} dollars are spent" if is_over else ""
    return Standing(why, "--max-cost USD", unpriced)


def change(s: Session, row: CampaignRow, max_usd: float | None, max_hours: float | None) -> CampaignRow:
    """The campaign with new limits, where any are given."""
    if not (max_usd or max_hours):
        return row
    order = order_of(row.selection)
    order = replace(order, max_usd=max_usd or order.max_usd, max_hours=max_hours or order.max_hours)
    campaign.reselect(s, row.id, codec.canonical(order))
    return campaign.campaign_row(s, row.id)


def first_lease_us(s: Session, campaign_id: int, default: int) -> int:
    """When a campaign's first job was leased."""
    query = sa.select(sa.func.min(attempt.c.leased_us)).join_from(attempt, job)
    return s.execute(query.where(job.c.campaign_id == campaign_id)).scalar() or default


def by_board(s: Session, row: CampaignRow | Running, now_us: int, epoch: int) -> tuple[Spent, ...]:
    """What a campaign's leases cost so far, a row for each board; `epoch` as `lease_time.held` takes it."""
    leases = lease_time.held(s, now_us, row.id, since_us=row.created_us, epoch=epoch)
    known = hourly.by_board(s, {lease.device for lease in leases})
    return spent(leases, known, lambda lease: lease.device)


@lru_cache(maxsize=256)
def _limits(selection: str) -> tuple[float, float]:
    """Dollars and hours of a stored order; 0 for no limit."""
    order = json.loads(selection)
    return order.get("max_usd", 0.0), order.get("max_hours", 0.0)
