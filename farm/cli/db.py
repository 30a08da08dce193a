"""Looks after the database: upgrade, check, backup, prune."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from db import check as checking
from db import session
from db.backup import backup as back_up
from db.prune import Removed
from db.prune import prune as remove
from db.session import open_existing
from farm.cli import options
from kernels.errors import FarmError

KEEP_DAYS = 90
DAY_S = 86_400


@click.group("db", no_args_is_help=True)
def db() -> None:
    """Look after the database that --db or FARM_DB names."""


@db.command()
@options.database
@options.as_json
def upgrade(url: str, as_json: bool) -> int:
    """Bring the database to the schema that this farm knows.

    Every command that opens one does so, too; this one says what it did.
    """
    before, after = session.upgrade(url)
    label = session.shown(url)
    line = f"{label} is at schema {after}: nothing to do"
    if before != after:
        line = f"{label} was upgraded from schema {before or 'none'} to {after}"
    click.echo(json.dumps({"schema": 1, "before": before, "after": after}) if as_json else line)
    return 0


@db.command()
@options.database
@options.as_json
def check(url: str, as_json: bool) -> int:
    """Say whether the database is whole, and says one thing only.

    References, the queue, verdicts and their evidence; every cell is folded again. Nothing is changed. Exit
    code 3 where something is wrong.
    """
    with open_existing(url).reading() as s:
        report = checking.check(s)
    if as_json:
        click.echo(json.dumps({"schema": 1, "complaints": report.complaints, "rows": dict(report.counts)}))
    else:
        for complaint in report.complaints:
            click.echo(complaint)
        rows = dict(report.counts)
        told = ", ".join(f"{rows[name]:,} {name}" for name in ("campaign", "job", "attempt", "evidence"))
        click.echo(f"{'nothing' if not report.complaints else 'something'} is wrong; rows: {told}, "
                   f"{rows['capability']:,} cells")  # fmt: skip
    return 3 if report.complaints else 0


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@options.database
@options.as_json
def backup(file: Path, url: str, as_json: bool) -> int:
    """Copy the database to FILE while the farm goes on.

    SQLite gives a database that --db can name; PostgreSQL a dump for pg_restore, by its own pg_dump.
    """
    nbytes = back_up(open_existing(url), file)
    line = f"{file}: {nbytes / 1e6:,.1f} MB"
    click.echo(json.dumps({"schema": 1, "file": str(file), "bytes": nbytes}) if as_json else line)
    return 0


@db.command()
@click.option(
    "--keep-days", type=click.IntRange(0), default=KEEP_DAYS, show_default=True, help="What is younger stays."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@options.database
@options.as_json
def prune(keep_days: int, dry_run: bool, url: str, as_json: bool) -> int:
    """Remove old campaigns, and lines of evidence that no cell rests on.

    However old, these stay: open campaigns, and of every case, board and source the newest line of each
    verdict. No cell changes by it.
    """
    removed = removed_from(url, keep_days, dry_run)
    if as_json:
        rows = {item.noun: item.rows for item in removed}
        click.echo(json.dumps({"schema": 1, "dry_run": dry_run, "removed": rows}))
    else:
        told = ", ".join(f"{item.rows:,} {item.noun}" for item in removed if item.rows) or "nothing"
        click.echo(f"{'would remove' if dry_run else 'removed'}: {told}")
    return 0


def removed_from(url: str, keep_days: int, dry_run: bool) -> tuple[Removed, ...]:
    """What went, or would go; the file gets smaller where it went."""
    database = open_existing(url)
    before_us = round((time.time() - keep_days * DAY_S) * 1e6)
    with database.writing() as s:
        removed = remove(s, before_us)
        if dry_run:
            s.rollback()
    if not dry_run and any(item.rows for item in removed):
        try:
            database.shrink()
        except FarmError as error:
            click.echo(f"farm: what is free stays in the file: {error}", err=True)
    return removed


COMMAND = db
