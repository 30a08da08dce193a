"""What an hour of each board costs, by one rule for `farm cost` and for `--max-cost`.

by_board(s, slugs) -> {slug: dollars}      # a rented board whose price nobody knows is left out
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from fractions import Fraction
from types import MappingProxyType

from db import device
from db.session import Session
from farm import prices
from farm.prices import Offer

NO_OFFERS: Mapping[str, Offer] = MappingProxyType({})


def by_board(s: Session, slugs: Set[str], given: Mapping[str, Offer] = NO_OFFERS) -> dict[str, Fraction]:
    """Of boards that the database knows; `given` is a price table that outranks the farm's list.

    A board is rented where a provider's sign is in its fingerprint, or a token brought its lines.
    """
    listed, brought = prices.cheapest(prices.offers()), device.rented(s, slugs)
    boards = [seen.device for seen in device.devices(s) if seen.device.slug in slugs]
    found = {
        board.slug: prices.hourly(
            board, board.slug in brought or "provider" in dict(board.fingerprint), given, listed
        )
        for board in boards
    }
    return {slug: usd for slug, usd in found.items() if usd is not None}
