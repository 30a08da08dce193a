"""Tables for people: the matrix, campaigns and devices, in a terminal or a pipe."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from db import campaign
from db.campaign import CampaignRow
from db.cases import kernels_of
from db.job import targets_of
from db.session import Database
from farm.footing import left_out
from farm.grid import Grid
from farm.marks import BY_AUTHOR, FLAGS, LEGEND, NEVER_RUN, narrow_mark, signs, tally
from farm.matrix import Cell, Column, Matrix
from farm.measured import measured
from farm.reader import read_matrix
from kernels import registry
from kernels.catalog import NO_KIND
from kernels.evidence import Verdict
from workers.clock import wall_clock

PIPE_WIDTH = 120  # columns where nobody says how wide the paper is
MEASURED = 8  # lines about times, at most
COMPILES_ONLY = "nvrtc"  # its PASS says that something was built: a table of another kind
BAD, GOOD, SKIPPED, NEVER, DOUBTED = "bold red", "green", "cyan", "dim", "yellow"


def console() -> Console:
    """Standard output; colours only in a terminal, and no text is taken for markup."""
    survive_any_encoding()
    if sys.stdout.isatty():
        return Console(markup=False, highlight=False, emoji=False)
    out = cast("TextIO", Trimmed(sys.stdout))
    return Console(file=out, width=PIPE_WIDTH, markup=False, highlight=False, emoji=False)


def survive_any_encoding() -> None:
    """Makes a character that standard output can't show an escape instead of an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class Trimmed:
    """A stream that loses the blanks at the ends of lines: a table in a pipe needs no right edge."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def shown(text: str, style: str = "") -> Text:
    """Text from a row or a worker: what would steer the terminal is shown as its code."""
    return Text("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text), style)


def table(*headers: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the farm's one look; the columns named in `right` hold figures."""
    made = Table(box=None, pad_edge=False)
    for header in headers:
        made.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return made


def style_of(cell: Cell) -> str:
    if cell.verdict is None:
        return NEVER
    if cell.flags:
        return DOUBTED
    return BAD if cell.verdict.bad else SKIPPED if cell.verdict is Verdict.SKIP else GOOD


def matrix_parts(matrix: Matrix) -> Iterator[RenderableType]:
    """A table per device class, backend and build where something ran, a line for the others, the legend."""
    times = measured(matrix)
    matrix = matrix.by_class()
    cells = cells_by_place(matrix)
    idle, archs = [], []
    for column in matrix.columns:
        mine = cells[column.device_class, column.backend]
        if not any(cell.verdict for cell in mine):
            idle.append(column)
        elif column.backend == COMPILES_ONLY:
            archs.append(column.device_class)
        else:
            for build in dict.fromkeys(cell.build for cell in mine):
                yield from _build_parts(column, build, [cell for cell in mine if cell.build == build])
    yield from _compiled_parts([cell for arch in archs for cell in cells[arch, COMPILES_ONLY]])
    yield from _idle_lines(idle, cells)
    yield from (shown(line) for line in times[:MEASURED])
    if len(times) > MEASURED:
        yield Text(f"… {len(times) - MEASURED} more were timed; farm export has all")
    yield Text()
    if note := left_out(matrix):
        yield Text(note)
    yield legend(matrix.cells)


def cells_by_place(matrix: Matrix) -> dict[tuple[str, str], list[Cell]]:
    """The cells of every device class and backend."""
    cells: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in matrix.cells:
        cells[cell.device_class, cell.backend].append(cell)
    return cells


def _build_parts(column: Column, build: str, cells: Sequence[Cell]) -> Iterator[RenderableType]:
    yield shown(f"{column.device_class}/{column.backend}, build {build}: {tally(cells)}", "bold")
    kinds = list(dict.fromkeys(cell.kind for cell in cells if _has_column(cell)))
    grid = Grid("kernel", kinds)
    by_row = {(f"{cell.op}/{cell.kernel}", cell.kind): cell for cell in cells if _has_column(cell)}
    for name in dict.fromkeys(name for name, _ in by_row):
        found = [by_row.get((name, kind)) for kind in kinds]
        grid.add_row(shown(name), *(_mark(cell) for cell in found))
    if kinds:
        yield grid
    below = [cell for cell in cells if not _has_column(cell)]
    for kind in dict.fromkeys(cell.kind for cell in below):
        line = shown(f"  {kind}:")
        for cell in below:
            if cell.kind == kind:
                line = Text.assemble(line, f"  {cell.op}/{cell.kernel} ", _mark(cell))
        yield line
    yield Text()


def _compiled_parts(cells: Sequence[Cell]) -> Iterator[RenderableType]:
    """A table per build of what compiles for which architecture: kinds built, or how many are bad."""
    for build in dict.fromkeys(cell.build for cell in cells):
        mine = [cell for cell in cells if cell.build == build]
        archs = list(dict.fromkeys(cell.device_class for cell in mine))
        grid = Grid("kinds built, nothing run: sm_", [arch.removeprefix("sm_") for arch in archs])
        groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
        for cell in mine:
            groups[f"{cell.op}/{cell.kernel}", cell.device_class].append(cell)
        for name in dict.fromkeys(name for name, _ in groups):
            grid.add_row(shown(name), *(_compiled_mark(groups[name, arch]) for arch in archs))
        yield shown(f"{COMPILES_ONLY}, build {build}: {tally(mine)}", "bold")
        yield grid
        yield Text()


def _compiled_mark(cells: Sequence[Cell]) -> Text:
    """11, 11^ where one of them spills, 2 REJECT, or · where none was tried."""
    ran = [cell for cell in cells if cell.verdict]
    if not ran:
        return Text(NEVER_RUN, NEVER)
    flags = sorted({flag for cell in ran for flag in cell.flags})
    bad = Counter(str(cell.verdict) for cell in ran if cell.verdict and cell.verdict.bad)
    if bad:
        return Text(" ".join(f"{count} {word}" for word, count in bad.items()) + signs(flags), BAD)
    built = sum(cell.verdict is Verdict.PASS for cell in ran)
    return Text(f"{built}{signs(flags)}", DOUBTED if flags else GOOD)


def _has_column(cell: Cell) -> bool:
    """False for ops without kinds and for mixes: they stand in lines below the table.

    F32 is the label of ops without kinds and a kind of the others; an op that isn't here has no kinds.
    """
    op = registry.ops().get(cell.op)
    return "+" not in cell.kind and (cell.kind != NO_KIND or bool(op and op.matrices))


def _mark(cell: Cell | None) -> Text:
    return Text(narrow_mark(cell), style_of(cell)) if cell else Text()


def _idle_lines(columns: Sequence[Column], cells: dict[tuple[str, str], list[Cell]]) -> Iterator[Text]:
    """Where nothing ran, many columns are one line: a table of dots would say no more."""
    boards = [column for column in columns if not column.is_target]
    for column in boards:
        count = len(cells[column.device_class, column.backend])
        yield shown(
            f"{NEVER_RUN} {column.device_class}/{column.backend}: none of {count:,} cells was ever run"
        )
    targets = [column for column in columns if column.is_target]
    if targets:
        names = ", ".join(_target_words(cells[column.device_class, "cuda"]) for column in targets)
        count = len(cells[targets[0].device_class, "cuda"])
        yield shown(
            f"{NEVER_RUN} {len(targets)} GPUs that no board fills, {count:,} cells each never run: {names}"
        )


def _target_words(cells: Sequence[Cell]) -> str:
    """rtx-3060, with the number of cells that compile for it where somebody tried: rtx-3060 (120 build)."""
    built = sum("builds" in cell.rungs for cell in cells)
    return f"{cells[0].device_class} ({built:,} build)" if built else cells[0].device_class


def legend(cells: Iterable[Cell]) -> Table:
    """What the marks that occur mean and who acts on them."""
    cells = list(cells)
    made = table("mark", "means", "who acts")
    present = {str(cell.verdict) if cell.verdict else NEVER_RUN for cell in cells}
    for word, means, who in LEGEND:
        if word in present:
            made.add_row(word, means, who)
    flags = {flag for cell in cells for flag in cell.flags}
    for flag, (sign, means) in FLAGS.items():
        if flag in flags:
            who = "kernel author" if flag in BY_AUTHOR else "whoever runs it next"
            made.add_row(sign, f"{flag}: {means}", who)
    return made


def campaign_line(row: CampaignRow, now_us: int) -> str:
    """campaign 1: 2,460 jobs in 48 s: 2,460 PASS"""
    elapsed_s = ((row.closed_us or now_us) - row.created_us) / 1e6
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in row.verdicts) or "no verdict yet"
    owed = f", {row.jobs - row.done:,} still to run" if row.jobs > row.done else ""
    return f"campaign {row.id}: {row.jobs:,} jobs in {duration(elapsed_s)}: {counts}{owed}"


def duration(seconds: float) -> str:
    """48 s, 3 min 20 s, 2 h 5 min, 3 days"""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest_s = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24:,} days"


def print_summary(database: Database, campaign_id: int, out: Console) -> None:
    """A campaign's end: the rows of its kernels where it ran, how many others there are, one line to keep."""
    now_us = wall_clock()
    with database.reading() as s:
        row = campaign.campaign_row(s, campaign_id)
        places = {(target.device_class, target.backend) for target in targets_of(s, campaign_id)}
        mine = kernels_of(s, campaign_id)
        whole = read_matrix(s, now_us).at(places)
    matrix = whole.of_kernels(mine)
    for part in matrix_parts(matrix):
        out.print(part)
    if others := len(whole.kernels - mine):
        out.print(f"{others:,} other kernels have cells there; farm status shows them", soft_wrap=True)
    out.print(shown(f"{campaign_line(row, now_us)}; {cells_line(matrix)}"), soft_wrap=True)


def cells_line(matrix: Matrix) -> str:
    """120 cells PASS, 0 bad, 0 never run on cpu-x86_64/host; what is stale counts as neither good nor bad."""
    parts = []
    for where, cells in _by_place_words(matrix.by_class()).items():
        fresh = [cell.verdict for cell in cells if cell.verdict and "stale" not in cell.flags]
        passed, bad = fresh.count(Verdict.PASS), sum(verdict.bad for verdict in fresh)
        stale = sum("stale" in cell.flags for cell in cells)
        never = sum(cell.verdict is None for cell in cells)
        old = f", {stale:,} stale" if stale else ""
        parts.append(f"{passed:,} cells PASS, {bad:,} bad{old}, {never:,} never run on {where}")
    return "; ".join(parts) or "no cells"


def _by_place_words(matrix: Matrix) -> dict[str, list[Cell]]:
    """Cells by device class and backend; all architectures together: 19 archs/nvrtc."""
    places = cells_by_place(matrix)
    archs = [device_class for device_class, backend in places if backend == COMPILES_ONLY]
    words: dict[str, list[Cell]] = defaultdict(list)
    for (device_class, backend), cells in places.items():
        several = backend == COMPILES_ONLY and len(archs) > 1
        words[f"{len(archs)} archs/{backend}" if several else f"{device_class}/{backend}"] += cells
    return words
