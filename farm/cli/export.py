"""Writes the capability matrix for docs and programs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from db.session import open_existing
from farm import exports
from farm.cli import options
from farm.exports import FolderExport
from farm.footing import left_out
from farm.narrow import Words, narrow
from farm.reader import read_matrix
from farm.terminal import survive_any_encoding
from farm.trusted import trusted
from kernels.errors import FarmError, UsageError
from kernels.model import Build
from workers.clock import wall_clock


@click.command(short_help=__doc__)
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    default="md",
    show_default=True,
    help=", ".join(exports.names()),
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="File to write, whole or not at all; else stdout. A folder for flashinfer-trace.",
)
@click.option("--device", "glob", metavar="GLOB", help="Only what matches in class, board name or UUID.")
@click.option("--build", type=click.Choice([build.value for build in Build]), help="Only this build.")
@click.option("--rows", default="", metavar="WORDS", help="Only rows that fit: matvec/* kind:Q4_K.")
@click.option("--columns", default="", metavar="WORDS", help="Only columns that fit: rtx-30* sm:>=86.")
@click.option("--since", default="", metavar="AGE", help="Only cells that ran since: 30d or 2026-11-29.")
@click.option("--rungs", default="", metavar="R,R", help="Only cells that have all of these rungs.")
@options.min_trust
@options.database
def export(
    format_name: str, output: Path | None, glob: str | None, build: str | None, min_trust: str, url: str,
    **narrowing: str,
) -> None:  # fmt: skip
    """Writes the capability matrix for docs and programs.

    \b
    farm export --output docs/matrix.md
    farm export --format html --rows 'matvec/* kind:Q4_K' --output matrix.html
    farm export --format svg --columns 'sm:>=86' --since 90d --output matrix.svg

    A cell that nobody ran has a mark of its own in every format, and no verdict. WORDS are globs and the
    filter words of the web's matrix; a row stays whole where one of its cells fits, and so does a column.
    What --min-trust leaves out has no verdict, a mark of its own, and is counted under the table.
    """
    chosen = exports.found(format_name)
    if isinstance(chosen, FolderExport) and output is None:
        raise UsageError(f"{format_name} is a folder of files; name one that isn't there yet with --output")
    database = open_existing(url)
    with database.reading() as s:
        matrix = read_matrix(s, wall_clock())
    matrix = matrix.of_device(glob) if glob else matrix
    matrix = matrix.of_build(build) if build else matrix
    rungs = tuple(word.strip() for word in narrowing.pop("rungs").split(",") if word.strip())
    matrix = narrow(matrix, Words(**narrowing, rungs=rungs))
    matrix = trusted(matrix, min_trust) if min_trust else matrix
    if note := left_out(matrix):
        click.echo(f"farm: {note}", err=True)
    if isinstance(chosen, FolderExport):
        with database.reading() as s:
            made = chosen.render(s, matrix)
        write_folder(output or Path(), made.files)
        click.echo(f"farm: {output}: {made.line}", err=True)
        return
    text = chosen.render(matrix)
    if output is None:
        survive_any_encoding()
        click.echo(text, nl=False)
    else:
        write_whole(output, text)


def write_folder(path: Path, texts: Mapping[str, str]) -> None:
    """Makes a folder in one step; FarmError where there is something already."""
    fresh = path.absolute().with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FarmError(f"{path} is there and isn't empty; name another --output")
        for name, text in texts.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_text(text, encoding="utf8", newline="\n")
        fresh.mkdir(exist_ok=True)
        fresh.replace(path)
    except OSError as error:
        raise FarmError(f"can't write {path}: {error.strerror or error}; name another --output") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def write_whole(path: Path, text: str, remedy: str = "name another --output") -> None:
    """Replaces a file in one step: a reader sees the old text or the new one. Its mode stays."""
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf8", newline="\n")  # a pipe or a terminal can't be replaced
            return
        fresh.write_text(text, encoding="utf8", newline="\n")
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o7777)
        fresh.replace(target)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise FarmError(f"can't write {path}: {error.strerror or error}; {remedy}") from None


COMMAND = export
