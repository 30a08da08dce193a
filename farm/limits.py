"""What a campaign may take before it stops by itself: dollars, and hours from its first lease on.

stop(s, now_us) -> {campaign id: why}      # pauses every open campaign that is past a limit of its own
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import sqlalchemy as sa

from db import campaign, device, lease_time
from db.campaign import CampaignRow
from db.session import Session
from db.tables import attempt, job
from farm import prices
from farm.campaign import order_of
from farm.cost import HOUR_US, spent, total
from kernels import codec


def stop(s: Session, now_us: int) -> dict[int, str]:
    """Pauses the open campaigns that are past a limit; what they hold ends by itself. Why, by campaign."""
    stopped = {}
    for row in campaign.open_campaigns(s):
        if row.paused_us is None and (why := passed(s, row, now_us)):
            campaign.pause(s, row.id, now_us)
            stopped[row.id] = why
    return stopped


def passed(s: Session, row: CampaignRow, now_us: int) -> str:
    """Which limit a campaign has reached, and by what; empty where it may go on."""
    max_usd, max_hours = _limits(row.selection)
    if max_hours and (took_us := now_us - first_lease_us(s, row.id, now_us)) >= max_hours * HOUR_US:
        return f"{took_us / HOUR_US:.2f} of {max_hours:g} hours are over"
    if max_usd and (usd := dollars(s, row, now_us)) >= Fraction(str(max_usd)):
        return f"{float(usd):.2f} of {max_usd:g} dollars are spent"
    return ""


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


def dollars(s: Session, row: CampaignRow, now_us: int) -> Fraction:
    """What a campaign's leases cost so far: by their boards' own prices, else by the farm's list."""
    known = prices.of_boards(device.devices(s), prices.cheapest(prices.offers()))
    leases = lease_time.held(s, now_us, row.id, since_us=row.created_us)
    return total(spent(leases, known, lambda lease: lease.device)).usd


@lru_cache(maxsize=256)
def _limits(selection: str) -> tuple[float, float]:
    """Dollars and hours of a stored order; 0 for no limit."""
    order = order_of(selection)
    return order.max_usd, order.max_hours
