"""What to rent for a budget: which classes, for how long, by which road, for which cells.

plan(wanted, offers, budget) -> Plan      # pure; ten thousand cells take a blink
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from farm.prices import Offer

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
START_US = 5 * MINUTE_US  # from the order to the first case: the machine starts, installs, is examined
SPARE = 3, 2  # of the cases' reckoned time: 3/2 of it, after which the worker is to end by itself
LEAST_MINUTES = 10  # of a worker
STOP_MINUTES = 6  # until what ran is ended by force, at most, and SkyPilot has looked
KEEP_MINUTES = {
    "gateway": 5,
    "ray": 5,
    "bundle": 30,
}  # that a machine stands idle: a bundle has to be fetched


@dataclass(frozen=True)
class Wanted:
    """A cell that some class lacks, or has of an older source."""

    device_class: str
    cell: str  # OP/KERNEL/KIND/BUILD
    stale: bool  # else never run
    case_us: int  # that its cases take there


@dataclass(frozen=True)
class Rental:
    """One board for some time."""

    offer: Offer
    cells: tuple[Wanted, ...]
    left: int  # cells of the class that the budget has no room for
    us: int  # with the start

    @property
    def usd(self) -> Fraction:
        """As reckoned: the start and the cases."""
        return self.offer.usd_hour * self.us / HOUR_US

    @property
    def limit_minutes(self) -> int:
        """After which its worker begins no case more."""
        return limit_minutes(self.us)

    @property
    def most_usd(self) -> Fraction:
        """Where all goes on for as long as its limits let it."""
        return self.offer.usd_hour * most_us(self.offer.road, self.us) / HOUR_US


def limit_minutes(us: int) -> int:
    return max(LEAST_MINUTES, -(-(us - START_US) * SPARE[0] // (SPARE[1] * MINUTE_US)))  # whole ones, upwards


def most_us(road: str, us: int) -> int:
    """How long a machine lives at most that is to take `us` with its start."""
    return START_US + (limit_minutes(us) + STOP_MINUTES + KEEP_MINUTES[road]) * MINUTE_US


@dataclass(frozen=True)
class Plan:
    """What a budget buys, the best value first, and what nobody offers."""

    rentals: tuple[Rental, ...]
    unoffered: tuple[tuple[str, int], ...]  # (class, cells) that no offer is known for
    unaffordable: tuple[tuple[str, int], ...]  # that not even one cell is left for

    @property
    def usd(self) -> Fraction:
        return sum((rental.usd for rental in self.rentals), Fraction())

    @property
    def most_usd(self) -> Fraction:
        """What the budget has room for."""
        return sum((rental.most_usd for rental in self.rentals), Fraction())


def plan(wanted: Iterable[Wanted], offers: Mapping[str, Offer], budget: Fraction) -> Plan:
    """As many cells as the budget buys where every machine lives for as long as it may: the classes that give
    most cells for a dollar come first, and a class that doesn't fit whole gets its quickest cells. A start is
    paid once for each class.
    """
    by_class: defaultdict[str, list[Wanted]] = defaultdict(list)
    for one in wanted:
        by_class[one.device_class].append(one)
    unoffered = [(name, len(cells)) for name, cells in by_class.items() if name not in offers]
    waiting = {name: _quickest_first(cells) for name, cells in by_class.items() if name in offers}
    rentals: list[Rental] = []
    left = budget
    while waiting:
        fits = {name: _fitting(offers[name], *queue, left) for name, queue in waiting.items()}
        name = max(fits, key=lambda each: (_value(fits[each]), each))
        best = fits[name]
        if not best.cells:
            break
        rentals.append(best)
        left -= best.most_usd
        del waiting[name]
    return Plan(
        tuple(rentals),
        tuple(sorted(unoffered)),
        tuple(sorted((name, len(cells)) for name, (cells, _) in waiting.items())),
    )


def _quickest_first(cells: Sequence[Wanted]) -> tuple[list[Wanted], list[int]]:
    """The cells, and for each how long a machine takes that ends behind it."""
    ordered = sorted(cells, key=lambda one: (one.case_us, one.cell))
    return ordered, list(accumulate((one.case_us for one in ordered), initial=START_US))[1:]


def _fitting(offer: Offer, cells: Sequence[Wanted], ends_us: Sequence[int], usd: Fraction) -> Rental:
    """The board with as many of its quickest cells as that many dollars buy."""
    most = usd * HOUR_US // offer.usd_hour
    count = bisect_right(ends_us, most, key=lambda us: most_us(offer.road, us))
    return Rental(offer, tuple(cells[:count]), len(cells) - count, ends_us[count - 1] if count else START_US)


def _value(rental: Rental) -> Fraction:
    """Cells for a dollar."""
    return Fraction(len(rental.cells)) / rental.most_usd
