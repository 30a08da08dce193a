"""Goes on with a campaign that was interrupted."""

from __future__ import annotations

import click

from farm.cli import options
from farm.drive import Way, resume_and_finish


@click.command("resume")
@click.argument("campaign", type=click.IntRange(1), required=False)
@options.local
@options.database
@options.as_json
def resume(campaign: int | None, local: bool, url: str, as_json: bool) -> int:
    """Finish CAMPAIGN, or the newest one without all its verdicts."""
    return resume_and_finish(url, campaign, Way(local, as_json))


COMMAND = resume
