"""Goes on with a campaign that was interrupted."""

from __future__ import annotations

import click

from farm.cli import options
from farm.drive import Way, resume_and_finish


@click.command("resume")
@click.argument("campaign", type=click.IntRange(1), required=False)
@options.max_cost
@options.max_hours
@options.local
@options.database
@options.as_json
def resume(
    campaign: int | None, max_usd: float | None, max_hours: float | None, local: bool, url: str, as_json: bool
) -> int:
    """Finish CAMPAIGN, or the newest one without all its verdicts.

    One that a limit of its own stopped goes on with a higher one.
    """
    return resume_and_finish(url, campaign, Way(local, as_json), max_usd, max_hours)


COMMAND = resume
