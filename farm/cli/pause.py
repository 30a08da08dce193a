"""Has nothing more of a campaign run until it is resumed."""

from __future__ import annotations

import json

import click

from db.session import open_existing
from farm.cli import options
from farm.records import campaign_record
from farm.steering import pause as pause_campaign
from workers.clock import wall_clock


@click.command("pause")
@click.argument("campaign", type=click.IntRange(1))
@options.database
@options.as_json
def pause(campaign: int, url: str, as_json: bool) -> int:
    """Hold CAMPAIGN back: what devices have in hand ends, nothing more is given out.

    Whichever farm is at work takes notice. `farm resume CAMPAIGN` goes on with it.
    """
    row = pause_campaign(open_existing(url), campaign, wall_clock())
    held = f", {row.leased:,} in hand" if row.leased else ""
    line = f"campaign {row.id} is paused: {row.waiting:,} jobs wait{held}; farm resume {row.id} goes on"
    click.echo(json.dumps(campaign_record(row)) if as_json else line)
    return 0


COMMAND = pause
