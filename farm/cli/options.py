"""Options that commands share."""

from __future__ import annotations

import click

DEFAULT_URL = "sqlite:///.farm/farm.db"

# Argument `url`: where the rows are; db.session opens it.
database = click.option(
    "--db",
    "url",
    metavar="URL",
    envvar="FARM_DB",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="Database.",
)

# Argument `as_json`: JSON to stdout, else tables for people; progress and messages go to stderr either way.
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
