"""Shows why a cell or a job has its verdict, down to the block's bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
from rich.console import Console

from db.cell import TROUBLE
from db.session import Database, open_existing
from db.story import story
from farm import build_text, dossier, story_text, user_catalog
from farm.cli import options
from farm.dossier import Dossier, Field
from farm.marks import mark, timestamp
from farm.one_case_text import scalar_words
from farm.reader import read_matrix
from farm.terminal import console, shown
from farm.times import words as times_words
from kernels import codec
from kernels.errors import UsageError
from kernels.evidence import Evidence, Worst
from kernels.model import Grid
from workers.clock import wall_clock

BYTES_A_LINE = 16
DIGITS = 25  # read of a job's number: enough to say that there is none
NAME_WIDTH = 12


@click.command(short_help=__doc__)
@click.argument("name", metavar="CELL|JOB")
@click.option("--source", "with_source", is_flag=True, help="Print the CUDA text as it ran, too.")
@click.option("--history", is_flag=True, help="Of a job: all that happened to it, oldest first.")
@options.as_json
@options.database
def show(name: str, with_source: bool, history: bool, as_json: bool, url: str) -> None:
    """Shows why a cell or a job has its verdict, down to the block's bytes.

    CELL is DEVICE/BACKEND/OP/KERNEL/KIND[/BUILD], for example cpu-x86_64/host/matvec/block/Q4_0; DEVICE is a
    board, a class or an sm. JOB is a number. A class shows the worst of its boards, a cell without BUILD the
    worst of its builds.
    """
    is_job = name.isascii() and name.isdigit()
    database = open_existing(url)
    if history:
        if not is_job:
            raise UsageError(f"--history is of a job, and {name[:80]!r} is no job's number")
        print_story(database, int(name[:DIGITS]), as_json)
        return
    with database.reading() as s, user_catalog.searching_stored(s):
        if is_job:
            found: tuple[Dossier, ...] = (dossier.of_job(s, int(name[:DIGITS])),)
        else:
            found = dossier.of_cell(s, read_matrix(s, wall_clock()), name)
    if as_json:
        documents = [dossier.document(each) for each in found]
        click.echo(json.dumps({"name": name, "found": documents}, indent=1, allow_nan=False))
        return
    out = console()
    for each in found:
        print_dossier(each, out)
        if with_source:
            print_sources(each, out)


def print_story(database: Database, job_id: int, as_json: bool) -> None:
    with database.reading() as s:
        found = story(s, job_id)
    if as_json:
        click.echo(json.dumps(story_text.document(found), indent=1))
        return
    out = console()
    for line in story_text.lines(found):
        out.print(shown(line), soft_wrap=True)


def print_dossier(found: Dossier, out: Console) -> None:
    for name, text in lines_of(found):
        out.print(shown(f"{name:<{NAME_WIDTH}} {text}".rstrip()), soft_wrap=True)
    out.print()


def lines_of(found: Dossier) -> Iterator[tuple[str, str]]:
    """(name, text) from the verdict down to the command that runs it alone."""
    yield from _head(found)
    if found.line:
        yield from _comparison_lines(found.line)
        yield from _block_lines(found)
        yield from _run_lines(found.line)
        if found.line.case.scalars:
            yield "scalars", scalar_words(found.line.case)
        yield "case", codec.canonical(found.line.case)
    yield "to run it" if found.line else "to run", found.command


def _head(found: Dossier) -> Iterator[tuple[str, str]]:
    yield "cell" if found.cell else "job", found.name
    if found.cell:
        yield "verdict", mark(found.cell) if found.cell.verdict else "never run: nothing is known"
        yield "rungs", " ".join(found.cell.rungs) or "none"
    if found.job:
        job = found.job
        yield "verdict", job.verdict or f"none yet, {job.state}"
        yield (
            "campaign",
            f"{job.campaign_id}, on {job.device_class}/{job.backend}, {job.losses} lost attempts",
        )
    yield from _reasons(found)
    if found.is_stale:
        now = found.current_digest[:12] or "not in this catalog"
        yield "stale", f"the source has changed since; it is {now} now"
    if len(found.parts) > 1:
        for part in found.parts:
            yield "", f"{mark(part):<8} {part.name}"
    if found.cases:
        yield "cases", ", ".join(f"{count:,} {verdict}" for verdict, count in found.cases)


def _reasons(found: Dossier) -> Iterator[tuple[str, str]]:
    """Of the case shown below, which need not be the newest that the cell's own line speaks of."""
    told = found.cell.reason if found.cell else ""
    if reason := found.line.reason if found.line else told:
        yield "reason", reason
    if TROUBLE in told and found.line:
        yield TROUBLE, told.rpartition(f"{TROUBLE}: ")[2]


def _comparison_lines(line: Evidence) -> Iterator[tuple[str, str]]:
    yield "evidence", f"{line.evidence_id}: {line.verdict}"
    if line.rule_verdict:
        yield "", f"by rule {line.rule}, which no cell folds: {line.rule_verdict}"
    for build in line.builds:
        for number, text in enumerate(build_text.lines(build)):
            yield "" if number else "build", text
    compared = line.comparison
    if compared is None:
        yield "compared", "nothing: no outputs came back"
        return
    yield (
        "compared",
        f"{compared.positions:,} positions by {compared.judge}, {compared.bad:,} outside the bound",
    )
    ratios = f"bound ratio {compared.bound_ratio:.4g}, relative ratio {compared.relative_ratio:.4g}"
    equal = "equal to the twin bit for bit" if compared.bit_exact else "not equal to the twin"
    equal += f", {compared.explained}" if compared.explained else ""
    equal = "no twin" if compared.twinless else equal
    yield "", f"{ratios}, NMSE {compared.nmse:.3g}, {equal}"
    if compared.float_nmse is not None:
        yield "", f"NMSE {compared.float_nmse:.3g} against the activations as given, not quantized"
    if compared.worst:
        yield "worst", worst_text(compared.worst)


def worst_text(worst: Worst) -> str:
    index = ", ".join(map(str, worst.index))
    figures = f"got {worst.got:.9g}, want {worst.want:.9g}, twin {worst.twin:.9g}, limit {worst.limit:.3g}"
    return f"{worst.buffer}[{index}] of launch {worst.launch}, {worst.kernel}: {figures}"


def _block_lines(found: Dossier) -> Iterator[tuple[str, str]]:
    if found.block:
        yield "block", f"{found.block_kind or 'kind unknown'}, the one with the largest share in that element"
    for field in found.block:
        yield from hex_lines(field)


def hex_lines(field: Field) -> Iterator[tuple[str, str]]:
    """`scales  4  0f 1e …`: name, offset from the start of the block, bytes."""
    pairs = [field.hex[i : i + 2] for i in range(0, len(field.hex), 2)]
    for first in range(0, len(pairs), BYTES_A_LINE):
        name = field.name if first == 0 else ""
        yield "", f"{name:<8} {field.offset + first:>4}  {' '.join(pairs[first : first + BYTES_A_LINE])}"


def _run_lines(line: Evidence) -> Iterator[tuple[str, str]]:
    for record in line.launches:
        if record.library:
            yield "launch", f"{record.entry} by {record.library}, {record.elapsed_us:,.0f} µs"
            continue
        shape = f"grid {_dims(record.grid)}, block {_dims(record.block)}"
        shared = f"shared {record.static_shared_bytes} + {record.dynamic_shared_bytes} B"
        yield (
            "launch",
            f"{record.entry}: {shape}, {shared}, {record.elapsed_us:,.0f} µs, {record.symbol_digest[:12]}",
        )
    if line.benchmark:
        for number, text in enumerate(times_words(line.benchmark, line.backend)):
            yield "" if number else "timed", text
    yield "device", f"{line.device.slug} ({line.device.name}), {line.backend}, repeats {line.repeats}"
    yield "compiler", line.compiler or "none"
    yield "flags", line.flags or "none"
    if line.substitutes:
        yield "substitutes", ", ".join(line.substitutes)
    for name in ("source_digest", "inputs_digest", "output_digest"):
        yield name.replace("_digest", ""), getattr(line, name) or "none"
    yield "versions", ", ".join(f"{name} {version}" for name, version in line.versions)
    yield "timings", ", ".join(f"{name} {us / 1000:,.1f} ms" for name, us in line.timings_us) or "none"
    yield "finished", f"{timestamp(line.finished_us)}, origin {line.origin}, trust {line.trust}"


def _dims(dims: Grid) -> str:
    return "x".join(map(str, dims))


def print_sources(found: Dossier, out: Console) -> None:
    for text in found.sources:
        out.print(shown(f"// {text.kernel} {text.kind}, as it ran".rstrip()), soft_wrap=True)
        for line in text.text.splitlines():
            out.print(shown(line.expandtabs(4)), soft_wrap=True)
    if not found.sources:
        out.print("the text of this source was not kept, and this catalog makes another one")


COMMAND = show
