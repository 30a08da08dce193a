"""Markdown for docs: a table per backend, device classes side by side, with legend, date and devices."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from farm import footing
from farm.exports import Export
from farm.marks import FLAGS, LEGEND, mark, tally, timestamp
from farm.matrix import Cell, Column, Matrix, Sabotaged
from farm.measured import measured

Place = tuple[str, str, str, str]  # op, kernel, kind, device class

BUILT_ONLY = "Nothing was run: PASS says here that the compiler built it for that architecture. "

SPECIAL = re.compile(r"([\\|*\[\]`~#])")


def render(matrix: Matrix) -> str:
    """The worst of a class's boards and of the builds that ran; named where another never ran."""
    by_class = matrix.by_class()
    backends = sorted({column.backend for column in by_class.columns}, key=_cuda_last)
    parts = ["# Capability matrix", *(section(by_class, backend, matrix.columns) for backend in backends)]
    parts += _measured(matrix)
    parts += _sabotage(matrix.sabotage)
    return "\n\n".join([*parts, _legend(), _devices(matrix), _provenance(matrix)]) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    return SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are given ready: escaped where they come from outside."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cuda_last(backend: str) -> tuple[bool, str]:
    return backend == "cuda", backend


def section(matrix: Matrix, backend: str, boards: Sequence[Column]) -> str:
    """One backend's table of a matrix by class, with what belongs under it."""
    mine = [cell for cell in matrix.cells if cell.backend == backend]
    known = ", ".join(escaped(build) for build in dict.fromkeys(cell.build for cell in mine))
    note = BUILT_ONLY if backend == "nvrtc" else ""
    head = f"## {escaped(backend)}\n\n{note}{tally(mine)}. Builds: {known or 'none'}."
    return f"{head}\n\n{grid(matrix, backend, boards)}"


def grid(matrix: Matrix, backend: str, boards: Sequence[Column], dated: bool = True) -> str:
    """The table of one backend, classes side by side and builds together, and the lines under it.

    Not dated, it says what ran and when, and is the same text until that changes.
    """
    classes = [column.device_class for column in matrix.columns if column.backend == backend]
    mine = [cell for cell in matrix.cells if cell.backend == backend]
    builds = Counter(_place(cell) for cell in mine)
    shown = replace(matrix, cells=tuple(mine)).across_builds().cells
    cells, notes = {_place(cell): cell for cell in shown}, footing.footnotes(shown)
    names = dict.fromkeys(place[:3] for place in cells)
    rows = [_row(name, [cells.get((*name, where)) for where in classes], builds, notes) for name in names]
    header = ["kernel", "kind", "rungs without the device"]
    header += [escaped(where) for where in classes]
    if not any(row[2] for row in rows):
        header, rows = [*header[:2], *header[3:]], [[*row[:2], *row[3:]] for row in rows]
    under = _under(matrix, shown, [one for one in boards if one.backend == backend], notes, dated)
    return f"{table(header, rows)}\n\n{under}"


def _under(
    matrix: Matrix, shown: Sequence[Cell], boards: Sequence[Column], notes: dict[str, int], dated: bool
) -> str:
    """Refusals, then marks, devices, date and catalog in a line each."""
    refused = [f"{_note(number)} {escaped(reason)}" for reason, number in notes.items()]
    classes = {column.device_class for column in boards}
    rows = {cell.row[:3] for cell in shown}
    marks = footing.legend(shown, blank=len(shown) < len(rows) * len(classes))
    lines = ["; ".join(map(escaped, marks)), "; ".join(map(escaped, footing.devices(boards)))]
    lines.append(escaped(footing.provenance(matrix, shown) if dated else footing.evidence(shown)))
    return "\\\n".join([*refused, *(f"{line}." for line in lines)])


def _note(number: int) -> str:
    return f"<sup>{number}</sup>"


def _place(cell: Cell) -> Place:
    return cell.op, cell.kernel, cell.kind, cell.device_class


def _row(
    name: tuple[str, ...], cells: Sequence[Cell | None], builds: Counter[Place], notes: dict[str, int]
) -> list[str]:
    op, kernel, kind = name
    waiting = [set(cell.rungs) for cell in cells if cell and cell.verdict is None]
    shared = set.intersection(*waiting) if waiting else set()
    rungs = " ".join(rung for rung in ("twin", "host", "builds") if rung in shared)
    marks = [_noted(cell, shared, builds[_place(cell)], notes) if cell else "" for cell in cells]
    return [escaped(f"{op}/{kernel}"), escaped(kind), rungs, *marks]


def _noted(cell: Cell, shared: set[str], builds: int, notes: dict[str, int]) -> str:
    number = notes.get(footing.refusal(cell))
    return _mark(cell, shared, builds) + (_note(number) if number else "")


def _mark(cell: Cell, shared: set[str], builds: int) -> str:
    """The verdict in bold where it is bad, the builds that it rests on where others never ran."""
    text = escaped(mark(cell))
    if cell.verdict is None:
        return " ".join([text, *(rung for rung in cell.rungs if rung not in shared)])
    text = f"**{text}**" if cell.verdict.bad else text
    return text if len(cell.build.split("+")) == builds else f"{text} {escaped(cell.build)} only"


def _measured(matrix: Matrix) -> list[str]:
    """Valid benchmarks of boards; nothing where there are none."""
    lines = [f"- {escaped(line)}" for line in measured(matrix)]
    return ["\n".join(["## Measured on boards\n", *lines])] if lines else []


def _sabotage(rows: Sequence[Sabotaged]) -> list[str]:
    """How well the checks ring: nothing where no kernel was mutated."""
    if not rows:
        return []
    header = (
        "kernel",
        "kind",
        "mutants",
        "killed",
        "by relative",
        "by NMSE",
        "same code",
        "equivalent",
        "alive",
        "score",
    )
    lines = []
    for row in rows:
        score, stale = row.score, " (stale)" if row.stale else ""
        killed = sum(count for _, count in score.killed)
        figures = (score.compiled, killed, score.by_relative, score.by_nmse, score.same, score.equivalents)
        lines.append(
            (
                escaped(score.kernel), escaped(score.kind), *map(str, figures), str(len(score.survivors)),
                f"{score.score:.1%}{stale}",
            )
        )  # fmt: skip
    means = (
        "Mutants are wrong kernels, one small change each, run on the kernel's own quick cases on a CPU. "
        "Relative and NMSE: how many those rules alone would have killed."
    )
    return [f"## Sabotage\n\n{means}\n\n{table(header, lines)}"]


def _legend() -> str:
    rows = [(word, means, who) for word, means, who in LEGEND]
    flags = [f"- ({flag}): {means}." for flag, (_, means) in FLAGS.items()]
    rungs = (
        "A rung says what is known without a verdict of the device: `twin`, the twin agrees with the oracle; "
        "`host`, the CUDA text passed on a CPU; `builds`, it compiles for the device's architecture. None of "
        "them is a verdict. A class shows the worst of its boards, a mark the worst of the builds that ran."
    )
    return "\n\n".join(["## Legend", table(("mark", "means", "who acts"), rows), "\n".join(flags), rungs])


def _devices(matrix: Matrix) -> str:
    boards = [column for column in matrix.columns if not column.is_target]
    targets = [column for column in matrix.columns if column.is_target]
    lines = [_board(column) for column in {c.device: c for c in boards}.values()]
    if targets:
        named = ", ".join(
            escaped(f"{column.name} ({column.device_class}, {column.sm})") for column in targets
        )
        lines.append(f"- Targets that no board fills yet: {named}")
    return "## Devices\n\n" + "\n".join(lines or ["- none"])


def _board(column: Column) -> str:
    return f"- {escaped(column.device_class)}: {escaped(column.name)} ({escaped(column.device)})"


def _provenance(matrix: Matrix) -> str:
    when = timestamp(matrix.generated_us)
    out = f"{escaped(note)}.\n\n" if (note := footing.left_out(matrix)) else ""
    return f"{out}Written by `farm export` at {when} against catalog {escaped(matrix.catalog_digest)}."


EXPORT = Export("md", render)
