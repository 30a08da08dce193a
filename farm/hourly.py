"""What an hour of each board costs, by one rule for `farm cost` and for `--max-cost`.

by_board(s, slugs) -> {slug: Tariff}      # at(us) is None for a rented board whose price nobody knew then
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from db import device
from db.session import Session
from farm import prices
from farm.prices import Offer

NO_OFFERS: Mapping[str, Offer] = MappingProxyType({})


@dataclass(frozen=True)
class Tariff:
    """Dollars an hour of one board, from when on; None while nobody knew."""

    usd: tuple[Fraction | None, ...]
    since_us: tuple[int, ...] = ()  # of all but the first, which holds from the beginning

    def at(self, us: int) -> Fraction | None:
        return self.usd[bisect_right(self.since_us, us)]


def by_board(s: Session, slugs: Set[str], given: Mapping[str, Offer] = NO_OFFERS) -> dict[str, Tariff]:
    """Of boards that the database knows; `given` is a price table that outranks the farm's list.

    A board is rented where a provider's sign is in its fingerprint, or a token brought its lines. What a
    worker is told later changes nothing of what was leased before. A state counts from when it was first
    seen, so that one that comes back, price and all, isn't told from the one between.
    """
    listed, brought = prices.cheapest(prices.offers()), device.rented(s, slugs)
    found = {}
    for slug, states in device.states(s, slugs).items():
        usd = tuple(
            prices.hourly(board, slug in brought or "provider" in dict(board.fingerprint), given, listed)
            for _, board in states
        )
        found[slug] = Tariff(usd, tuple(seen_us for seen_us, _ in states[1:]))
    return found
