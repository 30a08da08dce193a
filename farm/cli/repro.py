"""Writes one Python file that runs a cell's case alone, without the farm, and fails the same way."""

from __future__ import annotations

from pathlib import Path

import click

from db.session import open_existing
from farm import dossier, user_catalog
from farm.cli import options
from farm.cli.export import write_whole
from farm.cli.show import DIGITS
from farm.dossier import Dossier
from farm.reader import read_matrix
from farm.repro import file
from kernels.errors import FarmError, UsageError
from workers.clock import wall_clock
from workers.files import FileStore


@click.command(short_help=__doc__)
@click.argument("name", metavar="CELL|JOB")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The file to write.")
@options.database
def repro(name: str, output: Path, url: str) -> int:
    """Write one Python file that runs the deciding case of a cell, or a job, alone.

    \b
    farm repro cpu-x86_64/host/matvec/block/Q4_0/exact --output case.py
    python case.py

    The file has the text as it ran, the inputs, the flags and what each element must be. It needs numpy,
    Linux, for a CPU's cell a C++ compiler and for a GPU's a board and CuPy, and nothing of the farm; its exit
    code is 3 where the kernel is wrong.
    """
    with open_existing(url).reading() as s, user_catalog.searching_stored(s):
        if name.isascii() and name.isdigit():
            found = dossier.of_job(s, int(name[:DIGITS]))
        else:
            found = _only(dossier.of_cell(s, read_matrix(s, wall_clock()), name), name)
        if found.line is None:
            raise FarmError(f"{name} was never run; {found.command}")
        text = file.text_of(found.name, found.line, found.sources, FileStore())
    write_whole(output, text)
    click.echo(f"{output}: {found.line.verdict} of {found.name}; python {output} runs it", err=True)
    return 0


def _only(found: tuple[Dossier, ...], name: str) -> Dossier:
    if len(found) > 1:
        known = ", ".join(one.name for one in found)
        raise UsageError(f"{name} are {len(found)} cells: {known}; name one")
    return found[0]


COMMAND = repro
