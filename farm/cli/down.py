"""Ends the head that `farm up` started here, and nothing else."""

from __future__ import annotations

import os
import signal

import click

from farm.cluster import head_file
from kernels.errors import FarmError
from workers.state import state_folder

END_S = 60.0


@click.command("down", short_help=__doc__)
def down() -> None:
    """Ends the head that `farm up` started here, and nothing else.

    Running cases end first; what was leased and not started goes back. Machines that joined wait for the
    next head.
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


COMMAND = down
