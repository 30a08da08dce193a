"""Ends a campaign: what nobody has started is not run any more."""

from __future__ import annotations

import json

import click

from db.session import open_existing
from farm.cli import options
from farm.records import campaign_record
from farm.steering import cancel as cancel_campaign
from farm.terminal import campaign_line
from workers.clock import wall_clock


@click.command("cancel")
@click.argument("campaign", type=click.IntRange(1))
@options.database
@options.as_json
def cancel(campaign: int, url: str, as_json: bool) -> int:
    """End CAMPAIGN: jobs that nobody has started get SKIP, without evidence and in no cell.

    What runs ends by itself and counts. A campaign that was cancelled is not opened again; `farm retry
    CAMPAIGN --verdict SKIP` makes a new one of what was left.
    """
    row = cancel_campaign(open_existing(url), campaign, wall_clock())
    state = f"{row.leased:,} jobs still run" if row.is_open else "closed"
    line = f"{campaign_line(row, wall_clock())}; cancelled, {state}"
    click.echo(json.dumps(campaign_record(row)) if as_json else line)
    return 0


COMMAND = cancel
