"""Shows which NVRTC compiles for which architecture, and which one is installed."""

from __future__ import annotations

import json
from typing import Any

import click

from farm import toolchains as table_of
from farm.cli import options
from farm.targets import target_gpus
from farm.terminal import console, shown, table
from farm.toolchains import Standing, Toolchain, standing
from workers.backend import Unavailable
from workers.nvrtc import disassembler, library
from workers.nvrtc.library import Nvrtc

STYLES = {Standing.COMPILES: "green", Standing.NEEDS_NEWER: "yellow", Standing.DROPPED: "dim"}


@click.command(short_help=__doc__)
@options.as_json
def toolchains(as_json: bool) -> None:
    """Shows which NVRTC compiles for which architecture, and which one is installed.

    The installed version is marked with a star and says itself what it knows.
    """
    found, reason = installed()
    every = table_of.with_installed(table_of.known(), found)
    if as_json:
        click.echo(json.dumps(document(every, found, reason), indent=1))
    else:
        print_table(every, found, reason)


def installed() -> tuple[Nvrtc | None, str]:
    """The NVRTC that is here, or why there is none."""
    try:
        return library.find(), ""
    except Unavailable as error:
        return None, str(error)


def document(every: tuple[Toolchain, ...], found: Nvrtc | None, reason: str) -> dict[str, Any]:
    return {
        "installed": found.label if found else None,
        "unavailable": reason,
        "disassembler": disassembler.label() or None,
        "toolchains": [
            {
                "nvrtc": made.nvrtc,
                "driver": made.driver,
                "archs": {f"sm_{arch}": standing(arch, made, every).value for arch in table_of.archs(every)},
                "source": made.source,
            }
            for made in every
        ],
    }


def print_table(every: tuple[Toolchain, ...], found: Nvrtc | None, reason: str) -> None:
    out = console()
    grid = table("sm", *(_header(made, found) for made in every), "GPUs that users own")
    for arch in table_of.archs(every):
        words = [standing(arch, made, every) for made in every]
        gpus = [gpu.device_class for gpu in target_gpus() if gpu.sm == f"sm_{arch}"]
        grid.add_row(f"sm_{arch}", *(shown(word, STYLES[word]) for word in words), shown(", ".join(gpus)))
    grid.add_row("driver", *(f">= {made.driver}" for made in every))
    out.print(grid)
    if found:
        reader = disassembler.label() or disassembler.LACKING
        out.print(shown(f"* {found.label} is installed here; code is read by {reader}"), soft_wrap=True)
    else:
        out.print(shown(reason), soft_wrap=True)


def _header(made: Toolchain, found: Nvrtc | None) -> str:
    """12.9, with a star where it is the one that is here."""
    here = found is not None and made.version == found.version
    return f"{made.nvrtc}{'*' * here}"


COMMAND = toolchains
