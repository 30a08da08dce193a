"""Lists the quantized weight formats and how their blocks are laid out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from farm.cli import options
from farm.terminal import console, shown, table
from kernels import registry
from kernels.kind import Kind


@click.command(short_help=__doc__)
@options.as_json
def kinds(as_json: bool) -> None:
    """Lists the quantized weight formats and how their blocks are laid out."""
    found = [kind_record(kind) for kind in registry.kinds().values()]
    if as_json:
        click.echo(json.dumps({"kinds": found}, indent=1))
        return
    grid = table(
        "kind", "bytes", "weights", "bits/weight", "fields at byte", right=("bytes", "weights", "bits/weight")
    )
    for kind in found:
        fields = ", ".join(f"{field['name']} {field['offset']}" for field in kind["fields"])
        figures = (str(kind["block_bytes"]), str(kind["elements"]), f"{kind['bits_per_weight']:g}")
        grid.add_row(shown(kind["name"]), *figures, shown(fields))
    console().print(grid)


def kind_record(kind: Kind) -> dict[str, Any]:
    """All of it derived from the kind's block; `formula` is its module's first sentence."""
    formula = (sys.modules[kind.decode.__module__].__doc__ or "").strip().splitlines()[0]
    return {
        "name": kind.name,
        "block_bytes": kind.block_bytes,
        "elements": kind.elements,
        "bits_per_weight": 8 * kind.block_bytes / kind.elements,
        "formula": formula,
        "fields": fields_of(kind),
    }


def fields_of(kind: Kind) -> list[dict[str, Any]]:
    fields: Mapping[str, Any] = kind.block.fields or {}
    found = [
        {"name": name, "offset": offset, "bytes": dtype.itemsize}
        for name, (dtype, offset, *_) in fields.items()
    ]
    return sorted(found, key=lambda field: int(field["offset"]))


COMMAND = kinds
