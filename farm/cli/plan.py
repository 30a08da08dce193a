"""Says what to rent for a budget, so that stale and never-run cells get fresh."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from db import capability, device, token
from db.pace import GPU, Pace, paces
from db.session import Session, open_existing
from farm import prices
from farm.cli import options
from farm.cluster import head_file
from farm.lacking import Only, Ran
from farm.matrix import Column, Row, matches
from farm.pivot import columns_of
from farm.prices import Offer
from farm.reader import source_digest
from farm.rental import HOUR_US, Plan, Rental, Wanted
from farm.rental import plan as plan_rentals
from farm.rental_text import NETWORK, commands
from farm.targets import target_gpus
from farm.terminal import console, shown, table
from kernels import catalog
from kernels.catalog import Selection
from kernels.errors import UsageError
from workers.sim.plan import is_simulated

ASSUMED_US = 200_000  # a case, where no board has run one: 300 a minute


@click.command("plan", short_help=__doc__)
@click.option("--budget", type=options.Finite(0, min_open=True), required=True, help="Dollars.")
@click.option("--device", "glob", metavar="GLOB", help="Only what matches in class or name.")
@click.option("--prices", "price_file", type=options.FILE, help="A TOML file of offers: docs/DEPLOY.md.")
@options.as_json
@options.database
def plan(budget: float, glob: str | None, price_file: str | None, as_json: bool, url: str) -> None:
    """Say what to rent for a budget, so that stale and never-run cells get fresh.

    \b
    farm plan --budget 10
    farm plan --budget 3 --device 'rtx-*' --prices today.toml

    Which classes, for how long, by which road, for how many cells, and the commands to run; --json names the
    cells. Prices are SkyPilot's where it is installed, else those of a small file; seconds for a case were
    measured on the class, on other boards, or are assumed, and the plan says which. The budget has room for
    machines that live as long as they may; a start of more than five minutes isn't in it.
    """
    offers = offers_of(price_file)
    database = open_existing(url)
    head = head_file.running_on(database)
    with database.reading() as s:
        columns, ran, pace = gpus(s, glob), capability.cells(s), paces(s)
        taken = {row.name for row in token.tokens(s)} | peers()
    sms = {column.device_class: column.sm for column in columns}
    if price_file and not glob:
        tell_unknown(price_file, offers, sms)
    wants = wanted(sms, Ran(ran, sms), pace)
    found = plan_rentals(wants, offers, Fraction(str(budget)))
    lines = commands(found, head, taken)
    if as_json:
        click.echo(json.dumps(document(found, pace, lines), indent=1))
    else:
        show(found, pace, lines)


def offers_of(price_file: str | None) -> dict[str, Offer]:
    if price_file:
        return prices.cheapest(prices.offers(Path(price_file)))
    return prices.cheapest(prices.sky_offers() or prices.offers())


def tell_unknown(price_file: str, offers: Iterable[str], known: Collection[str]) -> None:
    """Says which classes of a price file no GPU has: a misspelt one would just not be in the plan."""
    if unknown := sorted(set(offers) - set(known)):
        there = ", ".join(sorted(known))
        told = f"no GPU here or among the targets is a {' or '.join(unknown)}; there are {there}"
        click.echo(f"farm: {price_file}: {told}", err=True)


def peers() -> set[str]:
    """Names that machines of the private network have, where deploy/wireguard.sh made one here."""
    return {path.stem for path in Path(NETWORK).parent.glob("*.peer")}


def gpus(s: Session, glob: str | None) -> tuple[Column, ...]:
    """GPUs' columns: of boards that were here, and of the farm's targets; UsageError where none matches."""
    boards = [seen.device for seen in device.devices(s) if not is_simulated("", seen.device.slug)]
    columns = [column for column in columns_of((), boards, target_gpus()) if column.backend == GPU]
    found = tuple(column for column in columns if not glob or matches(column, glob))
    if not found:
        known = ", ".join(sorted({column.device_class for column in columns}))
        raise UsageError(f"no GPU matches {glob!r}; there are {known}")
    return found


def wanted(classes: Collection[str], ran: Ran, pace: Mapping[str, Pace]) -> Iterable[Wanted]:
    """The cells of those classes that nobody ran or whose source has changed."""
    cells = quick_cells()
    digests = {row: source_digest(row) for row in cells}
    for device_class in sorted(classes):
        each_us = case_us(device_class, pace)
        for row, cases in cells.items():
            lacking = ran.lacks(device_class, GPU, row, digests[row])
            if lacking in (Only.NEVER, Only.STALE):
                yield Wanted(device_class, "/".join(row), lacking is Only.STALE, cases * each_us)


def quick_cells() -> Counter[Row]:
    """How many quick cases each cell is made of."""
    planned = (one.case for one in catalog.expand(Selection()))
    return Counter(Row(case.op, case.kernel, case.kind, case.build.value) for case in planned)


def case_us(device_class: str, pace: Mapping[str, Pace]) -> int:
    if device_class in pace:
        return pace[device_class].case_us
    return max((one.case_us for one in pace.values()), default=ASSUMED_US)


def reckoned_by(device_class: str, pace: Mapping[str, Pace]) -> str:
    if device_class in pace:
        return "measured"
    return "as the slowest class that ran" if pace else "assumed"


def show(found: Plan, pace: Mapping[str, Pace], lines: Sequence[str]) -> None:
    out = console()
    heads = ("class", "road", "USD/h", "minutes", "USD", "at most", "cells", "left", "provider", "case time")
    grid = table(*heads, right=("USD/h", "minutes", "USD", "at most", "cells", "left"))
    for rental in found.rentals:
        row = record(rental, pace)
        grid.add_row(*(str(row[name]) for name in (
            "device_class", "road", "usd_hour", "minutes", "usd", "most_usd", "cells", "left", "provider",
            "case_time",
        )))  # fmt: skip
    out.print(grid)
    cells = sum(len(rental.cells) for rental in found.rentals)
    dollars = f"{float(found.usd):.2f} USD as reckoned, {float(found.most_usd):.2f} at most"
    sources = ", ".join(sorted({rental.offer.source or "given" for rental in found.rentals}))
    whose = f"; prices: {sources}" if sources else ""
    out.print(shown(f"{cells:,} cells for {dollars}{whose}; --json names them"))
    for what, names in (("no offer", found.unoffered), ("no money left", found.unaffordable)):
        if names:
            out.print(shown(f"{what}: " + ", ".join(f"{name} ({count:,} cells)" for name, count in names)))
    if lines:
        out.print()
        out.print(shown("to run:"))
        for line in lines:
            out.print(shown(f"  {line}"), soft_wrap=True)


def record(rental: Rental, pace: Mapping[str, Pace]) -> dict[str, Any]:
    offer = rental.offer
    return {
        "device_class": offer.device_class,
        "road": offer.road,
        "provider": offer.provider,
        "spot": offer.spot,
        "usd_hour": float(offer.usd_hour),
        "price_source": offer.source,
        "minutes": round(rental.us * 60 / HOUR_US, 1),
        "limit_minutes": rental.limit_minutes,
        "usd": round(float(rental.usd), 4),
        "most_usd": round(float(rental.most_usd), 4),
        "cells": len(rental.cells),
        "stale": [cell.cell for cell in rental.cells if cell.stale],
        "never": [cell.cell for cell in rental.cells if not cell.stale],
        "left": rental.left,
        "case_time": reckoned_by(offer.device_class, pace),
    }


def document(found: Plan, pace: Mapping[str, Pace], lines: Sequence[str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "usd": round(float(found.usd), 4),
        "most_usd": round(float(found.most_usd), 4),
        "rentals": [record(rental, pace) for rental in found.rentals],
        "no_offer": dict(found.unoffered),
        "no_money": dict(found.unaffordable),
        "commands": list(lines),
    }


COMMAND = plan
