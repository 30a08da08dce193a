"""Writes the marked regions of Markdown files from evidence, and checks what they claim."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from db.capability import oldest
from db.evidence import import_lines
from db.session import Session, open_database, open_existing
from farm import claims, user_catalog
from farm.claims import Age, Finding
from farm.cli import options
from farm.cli.export import write_whole
from farm.marked import regions
from farm.matrix import Matrix
from farm.reader import read_matrix
from kernels.errors import FarmError, UsageError
from workers.bundle import read
from workers.clock import wall_clock

HOW = "mark one: <!-- farm:matrix device=CLASS --> <!-- farm:end -->"
Files = tuple[str, ...]
Result = TypeVar("Result")


@click.group(short_help=__doc__)
def docs() -> None:
    """Write the marked regions of Markdown files from evidence, and check what they claim.

    \b
    <!-- farm:matrix device=rtx-30* rows="matvec/*" --> … <!-- farm:end -->
    <!-- farm:cell sm_86/cuda/matvec/coalesced/Q4_K/default claims=device --> … <!-- farm:end -->

    A matrix takes device, backend, build, rows, columns, since and rungs, as farm export does. `claims` names
    the rungs that the document says a PASS has.
    """


def common(command: Callable[..., int]) -> Callable[..., int]:
    """The arguments that both commands have."""
    given = [
        click.argument("files", nargs=-1, required=True, type=options.FILE, metavar="FILE..."),
        click.option(
            "--evidence", "bundles", multiple=True, type=options.FILE, metavar="BUNDLE",
            help="Bundles instead of a database.",
        ),
        click.option("--if-marked", is_flag=True, help="Pass over files without a region."),
        options.database,
    ]  # fmt: skip
    for decorate in reversed(given):
        command = decorate(command)
    return command


@docs.command()
@common
def write(files: Files, bundles: Files, if_marked: bool, url: str) -> int:
    """Fill every region of FILE... from evidence; all files, or none if one is wrong."""
    texts = marked_texts(files, if_marked)
    matrix = seen_in(bundles, url, _matrix)
    new = {name: _named(name, claims.written, text, matrix) for name, text in texts.items()}
    changed = [name for name in texts if new[name] != texts[name]]
    for name in changed:
        write_whole(Path(name), new[name], "make it writable")
    count = sum(len(regions(text)) for text in texts.values())
    click.echo(f"{count} regions in {len(texts)} files, {len(changed)} files changed", err=True)
    return 0


@docs.command()
@common
@click.option(
    "--max-age", type=click.IntRange(1, 9999), metavar="DAYS", help="What a cell rests on may be no older."
)
@options.as_json
def check(files: Files, bundles: Files, if_marked: bool, url: str, max_age: int | None, as_json: bool) -> int:
    """Say what the regions of FILE... claim and the evidence doesn't carry.

    Exit code 3 where a region is outdated, shows a cell that is stale or suspect, claims a rung that its
    cells lack, or has a case whose evidence is older than --max-age. Nothing is written.
    """
    texts = marked_texts(files, if_marked)
    matrix, oldest_us = seen_in(bundles, url, lambda s: (_matrix(s), oldest(s) if max_age else {}))
    age = Age(max_age * claims.DAY_US, oldest_us) if max_age else None
    found = {name: _named(name, claims.check, text, matrix, age) for name, text in texts.items()}
    count = sum(len(regions(text)) for text in texts.values())
    wrong = sum(map(len, found.values()))
    if as_json:
        rows = [{"file": name} | asdict(one) for name, findings in found.items() for one in findings]
        click.echo(json.dumps({"schema": 1, "regions": count, "findings": rows}, indent=1))
    else:
        for name, findings in found.items():
            _print(name, findings)
    click.echo(f"{count} regions in {len(texts)} files, {wrong} claims without evidence", err=True)
    return 3 if wrong else 0


def _print(name: str, findings: Sequence[Finding]) -> None:
    for one in findings:
        click.echo(f"{name}:{one.line}: {one.claim}; {one.missing}")


def marked_texts(files: Files, if_marked: bool) -> dict[str, str]:
    """File to text; every file is read, whole and marked before anything is done."""
    texts = {name: _read(name) for name in dict.fromkeys(files)}
    for name, text in list(texts.items()):
        if not _named(name, regions, text):
            if not if_marked:
                raise UsageError(f"{name} has no region; {HOW}")
            del texts[name]
    return texts


def _read(name: str) -> str:
    try:
        return Path(name).read_bytes().decode("utf8")
    except UnicodeDecodeError as error:
        raise FarmError(f"{name}: byte {error.start} is no UTF-8; save it as UTF-8") from None


def _named(name: str, work: Callable[..., Result], *args: object) -> Result:
    """Work on a file, whose complaints begin with a line: the file's name comes before it."""
    try:
        return work(*args)
    except UsageError as error:
        raise UsageError(f"{name}:{error}") from None


def _matrix(s: Session) -> Matrix:
    return read_matrix(s, wall_clock())


def seen_in(bundles: Files, url: str, look: Callable[[Session], Result]) -> Result:
    """What is seen in bundles where some are named, else in the database."""
    now_us = wall_clock()
    if not bundles:
        with open_existing(url).reading() as s:
            return look(s)
    found = [read(Path(name)) for name in bundles]
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{folder}/farm.db")
        with database.writing() as s:
            for bundle in found:
                for pack in bundle.packs:
                    user_catalog.store(s, pack, now_us)
                import_lines(s, bundle.evidence, now_us)
        with database.reading() as s:
            seen = look(s)
        database.close()
    return seen


COMMAND = docs
