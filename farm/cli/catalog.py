"""Checks a catalog of kernels of your own, or writes one to start from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from farm.catalog_trial import Trial, exit_code, host, trials
from farm.cli import options
from farm.one_case_text import head
from kernels import registry
from kernels.declared import catalog as declared
from kernels.declared.mistake import Mistake
from kernels.declared.pack import Pack
from kernels.errors import FarmError, UsageError
from workers import packs

MOST_LINES = 10  # of one kernel and one sort


@click.group("catalog")
def catalog() -> None:
    """A folder with a .toml declaration per kernel and the CUDA files it names: docs/CATALOGS.md."""


@catalog.command("check")
@click.argument("folder", metavar="DIR")
@click.option("--run", "also_run", is_flag=True, help="Try tolerances, and run the kernels on this CPU.")
@options.as_json
def check(folder: str, also_run: bool, as_json: bool) -> int:
    """Say everything that is wrong in a catalog, a line for each mistake, and what was looked at.

    \b
    farm catalog check my-kernels
    farm catalog check my-kernels --run

    Nothing is compiled and nothing runs, unless --run says so: then every kernel runs its op's quick cases
    here, and a tolerance (or accumulates) that lets a kernel pass that computes nothing is a mistake, too.
    Exit code 2 where there is a mistake, 3 where a kernel's verdict is bad.
    """
    pack = packs.read(Path(folder))
    checked, mistakes = declared.check(pack)
    tried = _tried(pack) if also_run and not mistakes else ()
    if as_json:
        click.echo(json.dumps(_document(pack, checked, mistakes, tried), indent=1))
    else:
        for mistake in mistakes:
            click.echo(str(mistake))
        found = f"{checked.kernels} kernels, {checked.steps} steps, {checked.shapes} shapes planned"
        refused = f", {checked.refused} refused by name" * bool(checked.refused)
        click.echo(f"{folder}: {found}{refused}, {len(mistakes) or 'no'} mistakes", err=bool(mistakes))
        _show(tried)
    return 2 if mistakes else exit_code(tried)


def _tried(pack: Pack) -> tuple[Trial, ...]:
    board, why = host()
    if why:
        click.echo(f"farm: the kernels themselves don't run: {why}", err=True)
    return tuple(trials(declared.load(pack), board))


def _show(tried: Sequence[Trial]) -> None:
    for one in tried:
        _some([str(line) for line in one.refused])
        _some([head(evidence) for evidence in one.bad])
    for text in (text for one in tried for text in one.lines()):
        click.echo(text)


def _some(lines: Sequence[str]) -> None:
    """The first few: what is wrong in one case of a kernel is wrong in many."""
    for line in lines[:MOST_LINES]:
        click.echo(line)
    if len(lines) > MOST_LINES:
        click.echo(f"… and {len(lines) - MOST_LINES:,} more; --json has all")


def _document(
    pack: Pack, checked: declared.Checked, mistakes: Sequence[Mistake], tried: Sequence[Trial]
) -> dict[str, Any]:
    lines = [
        {"file": m.place.file, "line": m.place.line, "column": m.place.column, "text": m.text}
        for m in mistakes
    ]
    told = {"digest": pack.digest, "address": pack.address, "mistakes": lines}
    looked_at = {name: getattr(checked, name) for name in checked.__dataclass_fields__}
    return told | looked_at | ({"run": [one.record() for one in tried]} if tried else {})


def templates() -> list[str]:
    """The ops that there is a template for."""
    return sorted(
        Path(str(one)).stem
        for one in files("farm").joinpath("templates").iterdir()
        if one.name.endswith(".toml")
    )


@catalog.command("new")
@click.argument("folder", metavar="DIR")
@click.option("--op", default="matvec", show_default=True, help="What the kernel computes.")
def new(folder: str, op: str) -> None:
    """Write a kernel that passes and its declaration with comments, to change into your own.

    \b
    farm catalog new my-kernels
    farm catalog new my-norms --op rmsnorm
    """
    if op not in templates():
        raise UsageError(f"no template for op {op!r}; there are {', '.join(templates())}")
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FarmError(f"{folder} is there and not empty; name a new folder")
    target.mkdir(parents=True, exist_ok=True)
    for suffix in ("toml", "cu"):
        text = files("farm").joinpath("templates", f"{op}.{suffix}").read_text(encoding="utf8")
        (target / f"mine.{suffix}").write_text(text, encoding="utf8")
    kind = " Q8_0" * bool(registry.op(op).matrices)
    click.echo(f"wrote {target / 'mine.toml'} and {target / 'mine.cu'}; try", err=True)
    click.echo(f"farm run --catalog {folder} {op}/mine{kind} {EXAMPLES[op]}")


EXAMPLES = {
    "matvec": "64x4096", "mul_mm": "65x256x33", "rmsnorm": "3072", "add_rmsnorm": "3072", "silu_mul": "11008",
}  # fmt: skip

COMMAND = catalog
