"""Dollars: what the time in which leases held boards cost, by campaign, class, board or cell.

spent(leases, prices, by) -> tuple[Spent, …]      # exact: whole microseconds, prices as fractions
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from db.lease_time import Held
from farm.hourly import Tariff

HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Spent:
    """What one campaign, class, board or cell took."""

    name: str
    leases: int
    held_us: int
    usd: Fraction  # of the boards that have a price
    unpriced_us: int  # held on boards whose price nobody knows


def spent(
    leases: Iterable[Held], prices: Mapping[str, Tariff], by: Callable[[Held], str]
) -> tuple[Spent, ...]:
    """The sums by name, the dearest first; `prices` by board, and each lease at that of its beginning."""
    groups: defaultdict[str, list[Held]] = defaultdict(list)
    for lease in leases:
        groups[by(lease)].append(lease)
    found = [_sum(name, group, prices) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.usd, -one.held_us, one.name)))


def total(found: Iterable[Spent]) -> Spent:
    rows = list(found)
    return Spent(
        "total",
        sum(row.leases for row in rows),
        sum(row.held_us for row in rows),
        sum((row.usd for row in rows), Fraction()),
        sum(row.unpriced_us for row in rows),
    )


def _sum(name: str, leases: list[Held], prices: Mapping[str, Tariff]) -> Spent:
    by_price: defaultdict[Fraction | None, int] = defaultdict(int)
    for lease in leases:
        by_price[prices[lease.device].at(lease.leased_us)] += lease.charged_us
    usd = sum((price * held / HOUR_US for price, held in by_price.items() if price), Fraction())
    return Spent(name, len(leases), sum(by_price.values()), usd, by_price[None])
