"""Makes, lists and revokes the tokens of workers that come through the gateway."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click

from db import token as tokens
from db.session import open_database, open_existing
from farm.cli import options
from farm.terminal import console, shown, table
from kernels.errors import FarmError, UsageError
from workers.clock import wall_clock

DAY_US = 86_400_000_000
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@click.group("token", short_help=__doc__)
def token() -> None:
    """Makes, lists and revokes the tokens of workers that come through the gateway."""


@token.command("new")
@click.argument("name")
@click.option(
    "--device",
    "glob",
    default="*",
    show_default=True,
    metavar="GLOB",
    help="By class, slug or UUID; for a board that is somebody's already its own slug.",
)
@click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="Until it expires.")
@click.option("--output", type=options.FILE, help="Write it to a new file of mode 0600, not to stdout.")
@options.database
def new(name: str, glob: str, days: int, output: str | None, url: str) -> None:
    """Make a token and print it to stdout, this once: only its digest is kept."""
    if not NAME.fullmatch(name):
        raise UsageError(f"token name {name!r}: want 1 to 64 letters, digits and _ . -")
    if not glob or len(glob) > 128:
        raise UsageError(f"--device {glob[:40]!r}: want a glob of 1 to 128 characters")
    now = wall_clock()
    with secret_file(output) as file, open_database(url).writing() as s:
        secret = tokens.create(s, name, devices=glob, now_us=now, expires_us=now + days * DAY_US)
        click.echo(secret, file)
    kept = f"it is in {output}" if output else "keep it in a file of mode 0600"
    click.echo(f"farm: token {name} for {glob}, {days} days; {kept}", err=True)


@contextmanager
def secret_file(output: str | None) -> Iterator[TextIO]:
    """A new file that its owner alone can read, gone where nothing came of it; without a name, stdout."""
    if not output:
        yield sys.stdout
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise FarmError(f"{output}: {error.strerror}; name a file that isn't there yet") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf8") as file:
            yield file
    except BaseException:
        Path(output).unlink()
        raise


@token.command("list")
@options.database
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List the tokens; their secrets are kept nowhere."""
    now = wall_clock()
    with open_existing(url).reading() as s:
        rows = tokens.tokens(s)
    if as_json:
        click.echo(json.dumps({"tokens": [record(row, now) for row in rows]}, indent=1))
        return
    grid = table("token", "devices", "state", "expires", "last used")
    for row in rows:
        said = record(row, now)
        words = (said[name] or "never" for name in ("name", "devices", "state", "expires", "last_used"))
        grid.add_row(*map(shown, words))
    console().print(grid if rows else "no tokens; farm token new NAME makes one")


@token.command("revoke")
@click.argument("name")
@options.database
def revoke(name: str, url: str) -> None:
    """End a token at once; what its worker holds is given to others when its leases run out."""
    with open_existing(url).writing() as s:
        tokens.revoke(s, name, wall_clock())


def record(row: tokens.TokenRow, now_us: int) -> dict[str, str | None]:
    return {
        "name": row.name,
        "devices": row.devices,
        "state": row.state(now_us),
        "created": _day(row.created_us),
        "expires": _day(row.expires_us),
        "last_used": _day(row.used_us) if row.used_us else None,
    }


def _day(stamp_us: int) -> str:
    return datetime.fromtimestamp(stamp_us / 1e6, UTC).isoformat(timespec="seconds")


COMMAND = token
