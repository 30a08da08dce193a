"""Makes this machine's boards part of a farm: joins a head and stays, until Ctrl-C."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from farm.cli import options
from farm.log import logger
from workers.log import writing_to


@click.command("join", short_help=__doc__)
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--token-file",
    "token",
    type=options.FILE,
    required=True,
    help="A copy of the head's .farm/token, mode 0600.",
)
@click.option(
    "--host", default="", metavar="ADDRESS", help="This machine's private address; looked up unless named."
)
@click.option(
    "--firewalled", is_flag=True, help="An address here is public, and a firewall closes Ray's ports."
)
@click.option(
    "--minutes", type=options.Finite(0), default=0.0, help="End after so long without a head; 0: never."
)
@click.option(
    "--idle-minutes",
    type=options.Finite(0),
    default=0.0,
    help="End when no board here had a case for so long; 0: never.",
)
def join(token: str, **words: Any) -> None:
    """Makes this machine's boards part of a farm: joins a head and stays, until Ctrl-C.

    ADDRESS is HOST:PORT as `farm up` prints it. A node of Ray is a full member and can run code on every
    other: join machines that you trust, and give others a token for the gateway (farm gateway --help).
    """
    # Imported late: the command line must not wait for it.
    from farm.cluster.join import Member, Words

    with writing_to("node", people=sys.stderr):
        Member(Words(token=Path(token), **words), logger("node").info).run()


COMMAND = join
