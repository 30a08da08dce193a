"""Runs the bad jobs of a campaign again, as a new campaign."""

from __future__ import annotations

import click

from farm.cli import options
from farm.drive import Way
from farm.steering import BAD, retry_and_finish
from kernels.evidence import Verdict


@click.command("retry")
@click.argument("campaign", type=click.IntRange(1))
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice([verdict.value for verdict in Verdict], case_sensitive=False),
    help=f"Jobs that ended so; {', '.join(BAD)} unless named.",
)
@options.local
@options.database
@options.as_json
def retry(campaign: int, verdicts: tuple[str, ...], local: bool, url: str, as_json: bool) -> int:
    """Make a new campaign of CAMPAIGN's bad jobs, with today's sources, and run it.

    The campaign itself stays as it is: its verdicts are what was seen then. Exit code 3 where a verdict is
    bad again, 1 where no job ended so.
    """
    wanted = tuple(map(Verdict, verdicts)) or BAD
    return retry_and_finish(url, campaign, wanted, Way(local, as_json))


COMMAND = retry
