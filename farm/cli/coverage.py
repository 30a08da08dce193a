"""Says which kinds, kernels, families and shapes no case or no device reaches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from db import device
from db.outcomes import reached
from db.session import Session, open_existing
from farm import coverage as covering
from farm import user_catalog
from farm.cli import options
from farm.coverage import Class, Covered
from farm.pivot import default_backend
from farm.terminal import console, shown, table
from kernels import catalog
from kernels.catalog import Selection
from kernels.tiers import Tier
from workers.sim.plan import is_simulated

MOST = 6  # names that a line of the table lists


@click.command(short_help=__doc__)
@click.option("--kind", "kinds", multiple=True, help="Only these kinds.")
@click.option("--op", "ops", multiple=True, help="Only these ops.")
@click.option("--kernel", "kernels", multiple=True, help="OP/NAME, or NAME for every op that has it.")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice([tier.value for tier in Tier]),
    help="quick unless named.",
)
@options.database
@options.as_json
def coverage(url: str, as_json: bool, **chosen: tuple[str, ...]) -> int:
    """Say which kinds, kernels, families and shapes no case or no device reaches.

    Counted are the cases of the tiers, in each kernel's own builds, and the devices' evidence about a kernel
    for those very cases, whatever its verdict. The lines at the end submit what is missing.
    """
    tiers = tuple(Tier(name) for name in chosen.pop("tiers"))
    selection = Selection(tiers=tiers, **chosen)  # type: ignore[arg-type]
    with open_existing(url).reading() as s, user_catalog.searching_stored(s):
        there: dict[Class, set[str]] = {place: set() for place in _boards(s)}
        there |= reached(s)
        found = covering.cover(catalog.expand(selection), there)
    if as_json:
        click.echo(json.dumps(_document(found, list(there)), indent=1))
        return 0
    asked = [f"--kind {kind}" for kind in selection.kinds] + [f"--tier {tier}" for tier in tiers]
    _show(found, list(there), asked)
    return 0


def _boards(s: Session) -> Iterator[Class]:
    """Where boards are that anything can be run on, whether or not they ran something yet."""
    for row in device.devices(s):
        if not is_simulated("", row.device.slug):
            yield row.device.device_class, default_backend(row.device.device_class)


def _show(found: Sequence[Covered], classes: Sequence[Class], asked: Sequence[str]) -> None:
    out = console()
    heads = ["/".join(place) for place in sorted(classes)]
    grid = table("kernel", "kinds", "cases", *heads, right=("kinds", "cases", *heads))
    for one in found:
        counts = [f"{count:,}" for _, count in one.reached]
        grid.add_row(one.kernel, str(len(one.kinds)), f"{one.cases:,}", *counts)
    out.print(grid)
    for one in found:
        for what, names in _gaps(one):
            out.print(shown(f"{one.kernel}: {what}: {_some(names)}"), soft_wrap=True)
    out.print(shown("\nto add what is missing:"))
    for place in sorted(classes):
        lacking = [one for one in found if one.lacks(place)]
        if lacking:
            out.print(shown(_command(lacking, place, asked)), soft_wrap=True)


def _gaps(one: Covered) -> list[tuple[str, Sequence[str]]]:
    gaps = (
        ("families of no case", one.no_case),
        ("kinds on no device", one.kinds_unreached),
        ("families on no device", one.families_unreached),
        ("shapes on no device", one.shapes_unreached),
    )
    return [(what, names) for what, names in gaps if names]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _command(lacking: Sequence[Covered], place: Class, asked: Sequence[str]) -> str:
    """What submits them, and how many of its jobs are new there."""
    device_class, backend = place
    words = [f"--kernel {one.kernel}" for one in lacking] + list(asked)
    jobs = sum(one.lacks(place) for one in lacking)
    return (
        f"  farm submit {' '.join(words)} --backend {backend} --device {device_class}   # {jobs:,} cases more"
    )


def _document(found: Sequence[Covered], classes: Sequence[Class]) -> dict[str, Any]:
    return {
        "schema": 1,
        "classes": ["/".join(place) for place in sorted(classes)],
        "kernels": [
            {
                "kernel": one.kernel,
                "cases": one.cases,
                "kinds": one.kinds,
                "reached": {"/".join(place): count for place, count in one.reached},
                "would_add": {"/".join(place): one.lacks(place) for place, _ in one.reached},
                "families_of_no_case": one.no_case,
                "kinds_on_no_device": one.kinds_unreached,
                "families_on_no_device": one.families_unreached,
                "shapes_on_no_device": one.shapes_unreached,
            }
            for one in found
        ],
    }


COMMAND = coverage
