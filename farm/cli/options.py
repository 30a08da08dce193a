"""Options that commands share."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from kernels.evidence import Rule
from kernels.model import Build

SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%")
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

# Argument `rule`: a value of kernels.evidence.Rule.
rule = click.option(
    "--rule",
    type=click.Choice([rule.value for rule in Rule]),
    default=Rule.BOUND.value,
    show_default=True,
    help="What decides the output and the exit code; cells fold the bound alone.",
)


class Share(click.ParamType[float]):
    """A part of a whole, at most all of it: 5%, 0.5%, 0."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = SHARE.fullmatch(str(value))
        if found is None or float(found[1]) > 100:
            self.fail(f"{value!r} is no share; write 5%, 100% at the most, or 0%", param, ctx)
        return float(found[1]) / 100


class Finite(click.FloatRange):
    """A number within limits, which nan and inf aren't: nan is neither below the least nor above the most."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{found} is no finite number", param, ctx)
        return found


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

# Arguments `max_usd` and `max_hours`: None where nothing was said.
max_cost = click.option(
    "--max-cost",
    "max_usd",
    type=Finite(0, min_open=True),
    metavar="USD",
    help="Stop leasing when the boards' leases cost that much (farm cost).",
)
max_hours = click.option(
    "--max-hours",
    type=Finite(0, min_open=True),
    metavar="HOURS",
    help="Stop leasing so long after the first lease.",
)

# Argument `local`: no Ray.
local = click.option("--local", is_flag=True, help="In one process, without Ray and without an open port.")
