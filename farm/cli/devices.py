"""Shows what this machine can run on, and the devices that the database knows."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from db import device
from db.device import DeviceRow
from db.session import open_existing
from farm import standing
from farm.checkup import own_words
from farm.cli import options
from farm.records import device_record
from farm.terminal import console, duration, shown, table
from kernels.errors import FarmError
from workers import backend, boards
from workers.boards import Survey
from workers.clock import wall_clock


@click.command(short_help=__doc__)
@click.option("--readmit", metavar="BOARD", help="Let a board that is set aside work again, after an exam.")
@click.option("--set-aside", "aside", metavar="BOARD", help="Give a board no more jobs, and doubt its lines.")
@options.as_json
@options.database
def devices(readmit: str | None, aside: str | None, as_json: bool, url: str) -> None:
    """Shows what this machine can run on, and the devices that the database knows.

    A backend that can't run here says why. A board is set aside by itself where it fails an exam, or puts out
    other bits than the twin where another board didn't; its lines since its last good exam are suspect.
    """
    if readmit or aside:
        change_standing(url, readmit, aside)
        return
    here = boards.survey(backend.names())
    known, complaint = known_devices(url)
    if as_json:
        click.echo(json.dumps(document(here, known), indent=1))
        return
    print_here(here)
    print_known(known, complaint)


def change_standing(url: str, readmit: str | None, aside: str | None) -> None:
    """Sets a board aside or readmits it, and says what that changed."""
    now_us = wall_clock()
    with open_existing(url).writing() as s:
        told = [standing.readmit(s, readmit, now_us)] if readmit else []
        told += [standing.set_aside(s, aside, now_us)] if aside else []
    for line in told:
        click.echo(line, err=True)


def known_devices(url: str) -> tuple[tuple[DeviceRow, ...], str]:
    """The database's devices; none, and why, where it can't be read: the machine itself is worth showing."""
    try:
        with open_existing(url).reading() as s:
            return device.devices(s), ""
    except FarmError as error:
        return (), str(error)


def document(here: Survey, known: tuple[DeviceRow, ...]) -> dict[str, Any]:
    return {
        "here": [
            {
                "slug": board.device.slug,
                "device_class": board.device.device_class,
                "name": board.device.name,
                "uuid": board.device.uuid,
                "slots": board.device.slots,
                "fingerprint": dict(board.device.fingerprint),
                "backends": list(board.backends),
            }
            for board in here.boards
        ],
        "unavailable": list(here.unavailable),
        "known": [device_record(row) for row in known],
    }


def print_here(here: Survey) -> None:
    out = console()
    grid = table("here: class", "board", "name", "slots", "backends", "tells")
    for board in here.boards:
        words = (board.device.device_class, board.device.slug, board.device.name, str(board.device.slots))
        grid.add_row(*map(shown, (*words, " ".join(board.backends), own_words(board.device))))
    out.print(grid if here.boards else "nothing here can run a case; farm doctor says how to change that")
    for line in here.unavailable:
        out.print(shown(line), soft_wrap=True)
    out.print()


def print_known(known: tuple[DeviceRow, ...], complaint: str) -> None:
    out = console()
    grid = table("in the database: class", "board", "name", "last seen")
    for row in known:
        ago = duration(time.time() - row.last_seen_us / 1e6)
        grid.add_row(*map(shown, (row.device.device_class, row.device.slug, row.device.name, f"{ago} ago")))
    out.print(grid if known else shown(complaint or "no device in the database yet"), soft_wrap=True)


COMMAND = devices
