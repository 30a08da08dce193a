"""Stores a selection as a campaign and runs it on this machine's devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from farm import user_catalog, workload_file
from farm.campaign import TWICE, GgufFile, Order, Workloads, not_run
from farm.cli import options
from farm.drive import Way, submit_and_finish, submit_and_leave
from farm.gguf_cases import DEFAULT_ROWS
from farm.lacking import Only
from kernels import registry
from kernels.catalog import DEFAULT_SEEDS, NO_KIND, Selection
from kernels.errors import FarmError, UsageError
from kernels.evidence import Rule
from kernels.model import Build
from kernels.tiers import Tier
from workers.boards import wanted_backends

SELECTS = ("kinds", "ops", "kernels", "shapes", "tiers", "families", "only")
WHAT = (
    "nothing selected; give --all-kinds, or any of --kind, --op, --kernel, --shape, --tier, --family, "
    "--only, --gguf, --workloads, --catalog"
)


@click.command("submit")
@click.option("--all-kinds", is_flag=True, help="Every kernel for every kind.")
@click.option("--kind", "kinds", multiple=True, help="Q4_K and mixes with it, or one mix: Q4_K+Q4_K+Q6_K.")
@click.option("--op", "ops", multiple=True, help="matvec, mul_mm, ffn, …")
@click.option("--kernel", "kernels", multiple=True, help="OP/NAME, or NAME for every op that has it.")
@click.option("--shape", "shapes", multiple=True, help="matvec:ROWSxCOLS, mul_mm:ROWSxCOLSxBATCH, …")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice([tier.value for tier in Tier]),
    help="Shapes by tier; quick unless named.",
)
@click.option("--family", "families", multiple=True, help="Inputs: ordinary, tiny, onehot, …")
@click.option(
    "--seed", "seeds", multiple=True, type=click.IntRange(0), default=DEFAULT_SEEDS, show_default=True
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    type=options.BUILDS,
    help="Exact and default, or a kernel's own, unless named.",
)
@options.check
@click.option(
    "--backend", "backends", multiple=True, help="host, and cuda where there is a board, unless named."
)
@click.option("--device", default="*", metavar="GLOB", help="By class, board name or UUID.")
@click.option(
    "--catalog",
    "catalog_folder",
    metavar="DIR",
    help="The kernels of your own that this folder declares: docs/CATALOGS.md.",
)
@click.option("--gguf", type=options.FILE, help="Run this file's own weights.")
@click.option("--workloads", type=options.FILE, help="Run the shapes of this file, most used first.")
@click.option(
    "--batch", type=click.IntRange(1), help="With --gguf: mul_mm and gemm too, for that many tokens."
)
@click.option(
    "--rows",
    type=click.IntRange(0),
    help=f"With --gguf: sample larger matrices; {DEFAULT_ROWS} unless named, 0 takes all.",
)
@click.option(
    "--twice",
    type=options.Share(),
    default=f"{TWICE:.0%}",
    show_default=True,
    metavar="SHARE",
    help="Of the cases that passed: run on a second board of the class, where it has one.",
)
@click.option("--only", type=click.Choice([only.value for only in Only]), help="Cells in that state alone.")
@click.option("--bench", is_flag=True, help="Time what passes, as farm bench does.")
@options.max_cost
@options.max_hours
@click.option("--detach", is_flag=True, help="Store it for the devices of a running farm, and return.")
@options.rule
@options.local
@options.database
@options.as_json
def submit(
    all_kinds: bool, check: bool, catalog_folder: str | None, gguf: str | None, workloads: str | None,
    batch: int | None, rows: int | None, bench: bool, detach: bool, local: bool, url: str, as_json: bool,
    **words: Any,
) -> int:  # fmt: skip
    """Run a selection of cases and show the matrix.

    \b
    farm submit --all-kinds
    farm submit --kernel matvec/block --kind Q4_K --shape 4096x4096
    farm submit --gguf model.gguf --batch 33
    farm submit --kind Q4_K --tier full --tier models
    farm submit --kind Q4_K --workloads shapes.csv
    farm submit --catalog my-kernels
    farm submit --all-kinds --only stale
    farm submit --all-kinds --check

    Exit code 3 where a verdict is bad. After Ctrl-C `farm resume` goes on.
    """
    if not (all_kinds or gguf or workloads or catalog_folder or any(words[name] for name in SELECTS)):
        raise UsageError(WHAT)
    if catalog_folder and gguf:
        raise UsageError("--catalog and --gguf don't go together; name a --shape, --tier or --workloads")
    demand_one_of(
        **{"--shape": words["shapes"], "--tier": words["tiers"], "--gguf": gguf, "--workloads": workloads}
    )
    if check:
        words["builds"] = (*words["builds"], Build.CHECK.value)
    with user_catalog.searching(catalog_folder) as found:
        wanted = replace(order(gguf_file(gguf, batch, rows), **words), bench=bench)
        if found:
            selection = found.selected(wanted.selection)
            wanted = replace(wanted, selection=selection, catalog=found.pack.address)
        if workloads:
            wanted = with_uses(wanted, Path(workloads))
        if detach:
            return submit_and_leave(url, wanted, as_json, found)
        return submit_and_finish(url, wanted, Way(local, as_json), found)


def demand_one_of(**sources: object) -> None:
    """Refuses two options that both say which shapes run."""
    given = [name for name, value in sources.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each say which shapes run; leave out all but one")


def order(gguf: GgufFile | None, **words: Any) -> Order:
    """The options as an order; names are checked where they are used, kinds put into capitals here."""
    selection = Selection(
        ops=words["ops"],
        kernels=words["kernels"],
        kinds=tuple(map(kind_name, words["kinds"])),
        shapes=words["shapes"],
        families=words["families"],
        seeds=words["seeds"],
        builds=tuple(map(Build, words["builds"])),
        tiers=tuple(map(Tier, words["tiers"])),
    )
    only = Only(words["only"]) if words["only"] else None
    return Order(
        selection, wanted_backends(words["backends"]), words["device"], Rule(words["rule"]), only, gguf,
        twice=words["twice"], max_usd=words["max_usd"] or 0.0, max_hours=words["max_hours"] or 0.0,
    )  # fmt: skip


def with_uses(wanted: Order, path: Path) -> Order:
    """The order over a workload file's shapes; each of its mistakes is a line to stderr."""
    try:
        found = workload_file.read(path)
    except workload_file.Mistakes as mistakes:
        for line in mistakes.lines:
            click.echo(f"farm: {line}", err=True)
        raise
    if not found.uses:
        for item in not_run(found.left):
            click.echo(f"{item.name}: {item.reason}", err=True)
        raise FarmError(f"no job: no op here computes any of {path}'s uses")
    selection = replace(wanted.selection, uses=found.uses)
    return replace(wanted, selection=selection, workloads=Workloads(path.name, found.left))


def kind_name(text: str) -> str:
    """q4_k+q6_k -> Q4_K+Q6_K"""
    return "+".join(
        NO_KIND if part.upper() == NO_KIND else registry.kind(part).name for part in text.split("+")
    )


def gguf_file(path: str | None, batch: int | None, rows: int | None) -> GgufFile | None:
    if path:
        return GgufFile(path, DEFAULT_ROWS if rows is None else rows, batch or 0)
    if batch is not None or rows is not None:
        raise UsageError(f"{'--batch' if batch is not None else '--rows'} goes with --gguf FILE")
    return None


COMMAND = submit
