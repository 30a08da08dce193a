"""Adds up dollars: the time that leases held boards, times the boards' price."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from db import lease_time
from db.campaign import campaign_row
from db.lease_time import Held
from db.session import Session, open_existing
from farm import hourly, prices
from farm.cli import options
from farm.cost import HOUR_US, Spent, spent, total
from farm.terminal import console, shown, table
from workers.clock import wall_clock

BY = ("campaign", "class", "board", "cell")


@click.command("cost", short_help=__doc__)
@click.argument("campaign", type=click.IntRange(1), required=False)
@click.option("--by", type=click.Choice(BY), default=BY[0], show_default=True, help="What to add up by.")
@click.option("--prices", "price_file", type=options.FILE, help="For boards whose workers know no price.")
@options.as_json
@options.database
def cost(campaign: int | None, by: str, price_file: str | None, as_json: bool, url: str) -> None:
    """Add up dollars: the time that leases held boards, times the boards' price.

    A board's price is what its worker was told (FARM_LABELS='price=0.40 USD/h'), else that of its class in
    --prices; else a board of your own costs nothing, and a rented one what the farm's list says. A lease
    costs what its board did when it began. Every moment in which a board was leased is counted once; one in
    which it stood idle is not, so a provider's bill is higher by starts and waits. What was leased when the
    farm ended or vanished is counted for a quarter of an hour more at most.
    """
    offers = prices.cheapest(prices.offers(Path(price_file))) if price_file else {}
    with open_existing(url).reading() as s:
        if campaign:
            campaign_row(s, campaign)  # refuses one that isn't there
        leases = lease_time.held(s, wall_clock(), campaign)
        names, known = names_by(s, by, leases), hourly.by_board(s, {one.device for one in leases}, offers)
    rows = spent(leases, known, names)
    if as_json:
        click.echo(json.dumps(document(by, rows), indent=1))
    else:
        show(by, rows)


def names_by(s: Session, by: str, leases: Iterable[Held]) -> Callable[[Held], str]:
    if by == "cell":
        cells = lease_time.cells_of(s, {lease.case_id for lease in leases})
        return lambda lease: f"{lease.device}/{lease.backend}/{cells[lease.case_id]}"
    return {
        "campaign": lambda lease: str(lease.campaign_id),
        "class": lambda lease: lease.device_class,
        "board": lambda lease: lease.device,
    }[by]


def show(by: str, rows: tuple[Spent, ...]) -> None:
    grid = table(by, "leases", "hours", "USD", right=("leases", "hours", "USD"))
    whole = total(rows)
    for row in (*rows, whole):
        grid.add_row(row.name, f"{row.leases:,}", f"{row.held_us / HOUR_US:.3f}", f"{float(row.usd):.4f}")
    out = console()
    out.print(grid)
    if whole.unpriced_us:
        out.print(
            shown(
                f"{whole.unpriced_us / HOUR_US:.3f} hours on rented boards without a price: "
                "FARM_LABELS='price=0.40 USD/h' at the worker, or --prices FILE"
            )
        )


def document(by: str, rows: tuple[Spent, ...]) -> dict[str, object]:
    return {"schema": 1, "by": by, "rows": [record(row) for row in rows], "total": record(total(rows))}


def record(row: Spent) -> dict[str, object]:
    """Dollars as a fraction too: `usd` is rounded, `usd_exact` is not."""
    return {
        "name": row.name,
        "leases": row.leases,
        "held_us": row.held_us,
        "usd": round(float(row.usd), 6),
        "usd_exact": f"{row.usd.numerator}/{row.usd.denominator}",
        "unpriced_us": row.unpriced_us,
    }


COMMAND = cost
