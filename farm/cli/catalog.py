"""Checks a catalog of kernels of your own, or writes one to start from."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import click

from farm.cli import options
from kernels import registry
from kernels.declared import catalog as declared
from kernels.errors import FarmError, UsageError
from workers import packs


@click.group("catalog")
def catalog() -> None:
    """A folder with a .toml declaration per kernel and the CUDA files it names: docs/CATALOGS.md."""


@catalog.command("check")
@click.argument("folder", metavar="DIR")
@options.as_json
def check(folder: str, as_json: bool) -> int:
    """Say everything that is wrong in a catalog, a line for each mistake, and what was looked at.

    \b
    farm catalog check my-kernels

    Nothing is compiled and nothing runs. Exit code 2 where there is a mistake.
    """
    pack = packs.read(Path(folder))
    checked, mistakes = declared.check(pack)
    if as_json:
        lines = [
            {"file": m.place.file, "line": m.place.line, "column": m.place.column, "text": m.text}
            for m in mistakes
        ]
        told = {"digest": pack.digest, "address": pack.address, "mistakes": lines}
        click.echo(
            json.dumps(
                told | {name: getattr(checked, name) for name in checked.__dataclass_fields__}, indent=1
            )
        )
        return 2 if mistakes else 0
    for mistake in mistakes:
        click.echo(str(mistake))
    found = f"{checked.kernels} kernels, {checked.steps} steps, {checked.shapes} shapes planned"
    refused = f", {checked.refused} refused by name" * bool(checked.refused)
    click.echo(f"{folder}: {found}{refused}, {len(mistakes) or 'no'} mistakes", err=bool(mistakes))
    return 2 if mistakes else 0


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
