"""Mutates the CUDA text of kernels and says which rule catches each mutant, and which none does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from db import sabotage as rows
from db.sabotage import Score
from db.session import Database, open_database
from farm import sabotage_record, user_catalog
from farm.cli import options
from farm.exports import score_record
from farm.sabotage import (
    Outcome,
    Survivor,
    Tally,
    argued,
    catalog_jobs,
    jobs,
    label,
    outcome,
    standing_faults,
)
from farm.terminal import console, shown, table
from kernels import codec, equivalents
from kernels.declared.catalog import Catalog
from kernels.equivalents import Equivalent
from kernels.errors import FarmError, UsageError
from workers.clock import wall_clock
from workers.host import compiler
from workers.machine import usable_cores
from workers.sabotage import Job, Judgement, Report
from workers.sabotage.process import run_jobs


@dataclass(frozen=True)
class Chosen:
    """What is mutated, and the arguments for what may survive."""

    jobs: Sequence[Job]
    equivalents: Sequence[Equivalent]
    file: str  # that those are in
    faults: Sequence[str] = ()  # of the arguments about texts that were judged before, each with its text


@click.command(short_help=__doc__)
@click.argument("names", nargs=-1, metavar="[KERNEL...]")
@click.option("--all", "every", is_flag=True, help="Every kernel with a text of its own.")
@click.option("--kind", "kinds", multiple=True, help="Only these kinds; F32 for kernels without.")
@click.option(
    "--processes", type=click.IntRange(1, 256), default=usable_cores, show_default="one a core",
    help="Judges this many texts at a time.",
)  # fmt: skip
@click.option(
    "--catalog", "catalog_folder", metavar="DIR", help="Kernels declared in this folder, none of the farm's."
)
@click.option(
    "--record",
    type=options.FILE,
    help="Add scores to this file, and run nothing that it has of today's source and mutants; cases that "
    "came since don't count.",
)
@options.database
@options.as_json
def sabotage(
    names: tuple[str, ...], every: bool, kinds: tuple[str, ...], processes: int, catalog_folder: str | None,
    record: str | None, url: str, as_json: bool,
) -> int:  # fmt: skip
    """Mutates the CUDA text of kernels and says which rule catches each mutant, and which none does.

    \b
    farm sabotage matvec/block --kind Q4_K
    farm sabotage --all
    farm sabotage --catalog my-kernels

    Mutants run on the host backend, on the kernel's own quick cases. Scores go to the database and into
    exports. Exit code 3 where a mutant survives without an argument in kernels/equivalents.toml, or an
    argument there no longer applies. Of a catalog all kernels are taken unless some are named, and its own
    equivalents.toml. With --record a run that was interrupted goes on where it stopped; arguments about
    what it skips are held against what was alive then.
    """
    kept = Path(record) if record else None
    with user_catalog.searching(catalog_folder) as found:
        chosen = (
            _of_catalog(found, str(catalog_folder), names, every, kinds)
            if found
            else Chosen(jobs(names, every, kinds), equivalents.equivalents(), equivalents.FILE)
        )
        if kept:
            chosen = _unrecorded(chosen, kept)
        compiler.find()  # without one nothing can be judged: said once, not by every process
        database = open_database(url)
        if found:
            with database.writing() as s:
                user_catalog.store(s, found.pack, wall_clock())
        return _judge(chosen, database, processes, as_json, kept)


def _unrecorded(chosen: Chosen, path: Path) -> Chosen:
    recorded = sabotage_record.read(path)
    left = sabotage_record.left(chosen.jobs, recorded, chosen.equivalents)
    sabotage_record.demand_writable(path)
    there = [(job, sabotage_record.of_job(job, recorded)) for job in chosen.jobs if job not in left]
    faults = [
        f"{label(job)}: {chosen.file}: {fault}"
        for job, one in there
        if one
        for fault in standing_faults(job, one, chosen.equivalents)
    ]
    click.echo(
        f"{len(chosen.jobs) - len(left)} of {len(chosen.jobs)} texts are in {path} as they are today",
        err=True,
    )
    return replace(chosen, jobs=left, faults=faults)


def _of_catalog(
    found: Catalog, folder: str, names: tuple[str, ...], every: bool, kinds: tuple[str, ...]
) -> Chosen:
    if every and names:
        raise UsageError("name kernels, or say --all")
    path = Path(folder) / equivalents.NAME
    return Chosen(catalog_jobs(found, names, kinds), argued(found, path), str(path))


def _judge(chosen: Chosen, database: Database, processes: int, as_json: bool, record: Path | None) -> int:
    """Runs the jobs, stores each score as it comes, says what came out, and gives the exit code."""
    tallies = {job: Tally(job) for job in chosen.jobs}
    outcomes: dict[Job, Outcome] = {}
    failures: list[str] = []

    def tell(job: Job, value: Judgement | Report) -> None:
        tallies[job].take(value)
        if not isinstance(value, Report):
            return
        if value.failure:
            failures.append(f"{label(job)} could not be judged: {value.failure}")
            return
        outcomes[job] = outcome(tallies[job], wall_clock(), chosen.equivalents)
        with database.writing() as s:
            rows.put(s, outcomes[job].score)
        if record:
            sabotage_record.append(record, outcomes[job].recorded)
        done = f"{len(outcomes) + len(failures)} of {len(chosen.jobs)}"
        click.echo(f"{done}: {label(job)}, {outcomes[job].score.mutants} mutants", err=True)

    began = time.monotonic()
    run_jobs(chosen.jobs, processes, tell)
    took = time.monotonic() - began
    found = [outcomes[job] for job in chosen.jobs if job in outcomes]
    if found and as_json:
        click.echo(json.dumps(document(found, took), indent=1))
    elif found:
        show(found, took, chosen.file)
    for fault in chosen.faults:
        click.echo(fault, err=True)
    if failures:
        raise FarmError("; ".join(failures))
    return 3 if chosen.faults or any(one.survivors or one.faults for one in found) else 0


def document(found: Sequence[Outcome], took_s: float) -> dict[str, Any]:
    return {
        "sabotage": [score_record(one.score) for one in found],
        "survivors": [_located(one.score, codec.encode(s)) for one in found for s in one.survivors],
        "faults": [_located(one.score, {"reason": line}) for one in found for line in one.faults],
        "judgements": [_located(one.score, codec.encode(j)) for one in found for j in one.judgements],
        "mutants_per_minute": round(60 * sum(one.score.mutants for one in found) / took_s),
    }


def _located(score: Score, values: dict[str, Any]) -> dict[str, Any]:
    return {"kernel": score.kernel, "kind": score.kind, **values}


# Columns of the table: what is alike stands together, the JSON has every rule.
TOGETHER = {
    "crash": ("crash", "timeout"),
    "writes": ("guards", "unwritten"),
    "bound": ("bound", "bits"),
    "orders": ("orders",),
    "check": ("check",),
}


def show(found: Sequence[Outcome], took_s: float, argued_in: str = equivalents.FILE) -> None:
    """A line per text, then every survivor as a diff and every entry that is out of date."""
    out = console()
    figures = ("made", "built", *TOGETHER, "relative", "NMSE", "same", "equiv.", "alive", "score")
    grid = table("kernel", "kind", *figures, right=figures)
    for score in (one.score for one in found):
        killed = dict(score.killed)
        counts = [score.mutants, score.compiled]
        counts += [sum(killed.get(rule, 0) for rule in rules) for rules in TOGETHER.values()]
        counts += [score.by_relative, score.by_nmse, score.same, score.equivalents, len(score.survivors)]
        grid.add_row(score.kernel, score.kind, *map(str, counts), f"{score.score:.1%}")
    out.print(grid)
    out.print(
        "\nkilled first by: crash or timeout; writes around a buffer or none at all; bound, or other bits "
        "than the twin's; another order of execution; check (a race, a bound). relative, NMSE: what those "
        "rules alone would have killed; same: the compiler makes the right kernel's very code of it; equiv.: "
        "alive, with an argument",
        soft_wrap=True,
    )
    for one in found:
        for line in complaints(one, argued_in):
            out.print(shown(line), soft_wrap=True)
    total = sum(one.score.mutants for one in found)
    out.print(f"\n{total} mutants in {took_s:.0f} s: {60 * total / took_s:.0f} a minute", soft_wrap=True)


def complaints(found: Outcome, argued_in: str) -> Iterator[str]:
    """Survivors as diffs, then entries of the equivalents that don't apply."""
    where = f"{found.score.kernel} {found.score.kind}"
    for survivor in found.survivors:
        yield ""
        has_it = "" if survivor.file else f"; farm kernels --text {where} has it"
        yield f"{where}: nothing kills {survivor.mutant}{has_it}"
        yield from diff(survivor)
    for fault in found.faults:
        yield ""
        yield f"{where}: {argued_in}: {fault}"


def diff(survivor: Survivor) -> list[str]:
    line = f"{survivor.file}:{survivor.line}" if survivor.file else f"line {survivor.line}"
    return [line, f"- {survivor.was}", f"+ {survivor.now}"]


COMMAND = sabotage
