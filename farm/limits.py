"""What a campaign may take before it stops by itself: dollars, and hours from its first lease on.

past(s, now_us) -> {campaign id: why}      # the open campaigns that are past a limit of their own; only reads
stop(s, found, now_us)                     # pauses them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import sqlalchemy as sa

from db import campaign, device, lease_time
from db.campaign import CampaignRow, Running
from db.session import Session
from db.tables import attempt, job
from farm import prices
from farm.campaign import order_of
from farm.cost import HOUR_US, spent, total
from kernels import codec


def past(s: Session, now_us: int) -> dict[int, str]:
    """The open campaigns that are past a limit and not paused yet; why, by campaign."""
    return {one.id: why for one in campaign.running(s) if (why := passed(s, one, now_us))}


def stop(s: Session, found: Iterable[int], now_us: int) -> None:
    """Pauses campaigns, but for those that were closed meanwhile; what they hold ends by itself."""
    there = {one.id for one in campaign.running(s)}
    for campaign_id in there & set(found):
        campaign.pause(s, campaign_id, now_us)


def passed(s: Session, row: CampaignRow | Running, now_us: int) -> str:
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


def dollars(s: Session, row: CampaignRow | Running, now_us: int) -> Fraction:
    """What a campaign's leases cost so far: by their boards' own prices, else by the farm's list."""
    known = prices.of_boards(device.devices(s), prices.cheapest(prices.offers()))
    leases = lease_time.held(s, now_us, row.id, since_us=row.created_us)
    return total(spent(leases, known, lambda lease: lease.device)).usd


@lru_cache(maxsize=256)
def _limits(selection: str) -> tuple[float, float]:
    """Dollars and hours of a stored order; 0 for no limit."""
    order = order_of(selection)
    return order.max_usd, order.max_hours
