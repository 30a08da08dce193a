"""Adds the evidence of bundles to the database."""

from __future__ import annotations

import json
from pathlib import Path

import click

from db.evidence import ImportReport, UnfitLine, import_lines
from db.session import Session, open_database
from farm import user_catalog
from farm.cli import options
from kernels.declared.mistake import Misdeclared
from kernels.errors import FarmError
from workers.bundle import Bundle, read
from workers.clock import wall_clock


@click.command("import")
@click.argument("bundles", nargs=-1, required=True, type=options.FILE, metavar="BUNDLE...")
@options.database
@options.as_json
def import_(bundles: tuple[str, ...], url: str, as_json: bool) -> int:
    """Take in BUNDLEs that other machines wrote; their evidence is marked as imported.

    A line that is here already changes nothing, so a bundle may be imported twice. A last line that was cut
    off is dropped and reported; any other damage refuses the file, and then none of the BUNDLEs is imported.
    """
    found = {name: read(Path(name)) for name in bundles}
    database = open_database(url)
    rows = []
    with database.writing() as s:
        for name, bundle in found.items():
            if bundle.torn:
                click.echo(f"farm: {bundle.torn}", err=True)
            report = taken_in(s, name, bundle)
            rows.append(
                {"bundle": name, "new": report.new, "repeated": report.repeated, "torn": bool(bundle.torn)}
            )
    click.echo(json.dumps({"schema": 1, "bundles": rows}) if as_json else "\n".join(map(_line, rows)))
    return 0


def taken_in(s: Session, name: str, bundle: Bundle) -> ImportReport:
    """Stores a bundle's catalogs and lines; FarmError names the bundle."""
    try:
        for pack in bundle.packs:
            user_catalog.store(s, pack, wall_clock())
        return import_lines(s, bundle.evidence, wall_clock())
    except (UnfitLine, Misdeclared) as error:
        raise FarmError(f"{name}: {error}; none of the bundles is imported") from None


def _line(row: dict[str, object]) -> str:
    return f"{row['bundle']}: {row['new']} new, {row['repeated']} were here already"


COMMAND = import_
