"""Ends the head that `farm up` started here, and names what still runs elsewhere."""

from __future__ import annotations

import os
import signal

import click

from db.session import open_existing
from farm.cli import options
from farm.cluster import head_file
from farm.elsewhere import elsewhere
from kernels.errors import FarmError
from workers.boards import survey, wanted_backends
from workers.clock import wall_clock
from workers.state import state_folder

END_S = 60.0


@click.command("down", short_help=__doc__)
@options.database
def down(url: str) -> None:
    """Ends the head that `farm up` started here, and names what still runs elsewhere.

    Running cases end first; what was leased and not started goes back. Machines that joined wait for the
    next head: they are not ended, and those that wait, or were heard in the last 15 minutes, are named.
    """
    head = head_file.running()
    if head is None:
        raise FarmError(f"no head runs in {state_folder()}; farm up starts one")
    os.kill(head.pid, signal.SIGTERM)
    if not head_file.wait_for_end(head, END_S):
        raise FarmError(
            f"the head (process {head.pid}) is still there after {END_S:g} s; see head.log, kill {head.pid}"
        )
    click.echo(f"farm: the head at {head.address} has ended", err=True)
    for line in still_there(url, head.database):
        click.echo(f"farm: {line}", err=True)


def still_there(url: str, label: str) -> list[str]:
    """What to say about machines elsewhere; `label` is the database that the head worked on."""
    here = {board.device.slug for board in survey(wanted_backends(())).boards}
    try:
        database = open_existing(url)
        if head_file.label_of(database) != label:
            return [f"it worked on {label}: with --db, farm down names what still runs elsewhere"]
        with database.reading() as s:
            found = elsewhere(s, here, wall_clock())
    except FarmError as error:
        return [f"can't tell what still runs elsewhere: {error}"]
    if not found:
        return ["nothing was heard from elsewhere in the last 15 minutes"]
    return [
        "may still run elsewhere, and cost money (sky status, sky down NAME):",
        *(f"  {x}" for x in found),
    ]


COMMAND = down
