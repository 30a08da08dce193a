"""Options that commands share."""

from __future__ import annotations

import click

from kernels.model import Build, Rule

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

# Argument `rule`: a value of kernels.model.Rule.
rule = click.option(
    "--rule",
    type=click.Choice([rule.value for rule in Rule]),
    default=Rule.BOUND.value,
    show_default=True,
    help="What decides the output and the exit code; cells fold the bound alone.",
)

# Argument `min_trust`: a level of db.agreement.LEVELS; empty for all.
min_trust = click.option(
    "--min-trust",
    default="",
    metavar="LEVEL",
    help="Only verdicts that rest on this or more: suspect, imported, rented, own, confirmed.",
)

BUILDS = click.Choice([build.value for build in Build])
# Argument `check`: --build check in one word.
check = click.option("--check", is_flag=True, help="The check build: --build check.")
FILE = click.Path(dir_okay=False)
# Argument `catalog_folder`: a user's own kernels.
catalog = click.option(
    "--catalog", "catalog_folder", metavar="DIR", help="Kernels of your own too, declared in this folder."
)

# Argument `local`: no Ray.
local = click.option("--local", is_flag=True, help="In one process, without Ray and without an open port.")
