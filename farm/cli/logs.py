"""Shows what heads, gateways, agents and campaigns of this state folder have logged."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TypedDict, Unpack

import click

from farm import logs as reading
from farm.logs import Logs, Wanted
from workers.log import log_folder

GLANCE_S = 0.5  # between looks at what is new


class Words(TypedDict):
    """What narrows the lines down."""

    campaign: int | None
    job: int | None
    device: str
    since: str


@click.command(short_help=__doc__)
@click.option("--campaign", type=click.IntRange(1), metavar="ID", help="Only what is about that campaign.")
@click.option("--job", type=click.IntRange(1), metavar="ID", help="Only what is about that job.")
@click.option("--device", default="", metavar="SLUG", help="Only what is about that board.")
@click.option("--since", default="", metavar="AGO", help="Only what is younger: 90s, 30m, 1h, 2d.")
@click.option("--follow", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are, one JSON object each.")
def logs(follow: bool, as_json: bool, **words: Unpack[Words]) -> None:
    """Shows what heads, gateways, agents and campaigns of this state folder have logged.

    \b
    farm logs --job 17
    farm logs --device rtx-3090-1f --since 1h --follow

    One stream, oldest first, of the files in .farm/log; each machine has its own. What the database knows of
    a job, whichever machine did it, is told by farm show JOB --history.
    """
    ago = reading.since(words["since"], datetime.now(UTC)) if words["since"] else ""
    wanted = Wanted(words["campaign"], words["job"], words["device"], ago)
    found = Logs(log_folder())
    if not follow:
        found.demand_some()
    shown = _follow(found, wanted, as_json) if follow else _print_new(found, wanted, as_json)
    if not shown:
        click.echo(f"farm: none of {found.read:,} lines in {found.folder} is about that", err=True)
    if found.broken:
        click.echo(f"farm: {found.broken:,} lines can't be read: their process was killed", err=True)


def _print_new(found: Logs, wanted: Wanted, as_json: bool) -> int:
    """Prints what was written since; how many lines."""
    shown = 0
    for text, line in found.new():
        if wanted.takes(line):
            shown += 1
            click.echo(text if as_json else reading.for_people(line))
    return shown


def _follow(found: Logs, wanted: Wanted, as_json: bool) -> int:
    """Prints what there is and what comes, until Ctrl-C; how many lines."""
    shown = 0
    try:
        while True:
            shown += _print_new(found, wanted, as_json)
            time.sleep(GLANCE_S)
    except KeyboardInterrupt:
        return shown


COMMAND = logs
