"""Cells that grow by a batch of lines: what a whole fold gives, told from the touched cases where it can be.

was = before(s, keys, case_ids)     # then the lines are stored
refold(s, was, added)

Most lines of a campaign say nothing new: PASS, of a case that its cell didn't have or that passed before with
the same figures. Then a cell follows from what it was and what its touched cases are. If not, a fold tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from db.capability import (
    Capability,
    CellKey,
    Finding,
    Standing,
    cells_of,
    findings_of,
    fold_cells,
    largest,
    least_trusted,
    stand_all,
    write,
)
from db.session import Session
from kernels.model import Verdict

DOUBTS = {"flaky", "suspect"}  # flags that a line may take away or bring


@dataclass(frozen=True)
class Cells:
    """Cells as they were, and the lines of some of their cases that can matter."""

    cells: dict[CellKey, Capability]
    findings: dict[CellKey, list[Finding]]


def before(s: Session, keys: Iterable[CellKey], case_ids: Set[str]) -> Cells:
    """The cells that lines are about to be added to, and where the cases of those lines stand in them."""
    cells = cells_of(s, sorted(set(keys)))
    return Cells(cells, findings_of(s, list(cells), case_ids) if cells else {})


def refold(s: Session, was: Cells, added: Sequence[Finding]) -> None:
    """Brings the cells of stored lines up to date; `was` is from before they were stored."""
    by_cell: defaultdict[CellKey, list[Finding]] = defaultdict(list)
    for one in added:
        by_cell[one.key].append(one)
    grown = {
        key: grow(was.cells[key], was.findings[key], by_cell[key]) for key in by_cell if key in was.cells
    }
    write(s, [cell for key, cell in grown.items() if cell and cell != was.cells[key]])
    fold_cells(s, [key for key in by_cell if grown.get(key) is None])


def grow(cell: Capability, findings: Iterable[Finding], added: Sequence[Finding]) -> Capability | None:
    """The cell with the `added` lines, given all others of the same cases; None where a fold must tell."""
    if cell.verdict is not Verdict.PASS or cell.reason or not DOUBTS.isdisjoint(cell.flags):
        return None
    touched = {one.case_id for one in added}
    findings = [one for one in findings if one.case_id in touched]
    stood = {standing.counts.case_id: standing for standing in stand_all(findings)}
    grown: Capability | None = cell
    for standing in stand_all([*findings, *added]):
        was = stood.get(standing.counts.case_id)
        if grown is None or not _is_plain(standing) or standing.counts.device_class != cell.device_class:
            return None
        if was is None:
            grown = _with(grown, standing.counts)
        elif not _says_the_same(was, standing):
            return None
        else:
            grown = replace(grown, last_run_us=max(grown.last_run_us, standing.counts.finished_us))
    return grown


def _is_plain(standing: Standing) -> bool:
    """PASS without a word, or SKIP; and nothing else was ever seen of the case that would show."""
    counts = standing.counts
    silent = counts.verdict is Verdict.SKIP or (counts.verdict is Verdict.PASS and not counts.reason)
    return silent and standing.trouble is None and not standing.flaky and not counts.suspect


def _says_the_same(was: Standing, now: Standing) -> bool:
    """Whether a case adds to its cell what it added before, but for the time."""
    if was.trouble or was.flaky or was.counts.suspect or was.counts.verdict is not now.counts.verdict:
        return False
    if was.counts.trust != now.counts.trust:
        return False
    if now.counts.verdict is Verdict.SKIP:
        return True
    figures = ("reason", "positions", "bound_ratio", "relative_ratio", "nmse", "bit_exact", "twin_agrees")
    names = (*figures, "build_digest", "notes")
    return all(getattr(was.counts, name) == getattr(now.counts, name) for name in names)


def _with(cell: Capability, one: Finding) -> Capability | None:
    """A PASS cell with one case more, PASS or SKIP; None where it doesn't tell enough about the others."""
    trust = least_trusted((cell.trust, one.trust))
    cell = replace(cell, last_run_us=max(cell.last_run_us, one.finished_us), trust=trust)
    if one.verdict is Verdict.SKIP:
        return replace(cell, skipped=cell.skipped + 1)
    if one.twin_agrees and "twin" not in cell.rungs:
        return None  # a case may have contradicted its twin, or none had one
    lost = ("twin",) * (one.twin_agrees is False) + ("exact",) * (not one.bit_exact)
    exact = [said for said in (cell.bit_exact, one.bit_exact) if said is not None]
    return replace(
        cell,
        cases=cell.cases + 1,
        positions=cell.positions + one.positions,
        rungs=tuple(rung for rung in cell.rungs if rung not in lost),
        flags=tuple(sorted({*cell.flags, *filter(None, one.notes.split(","))})),
        bound_ratio=largest((cell.bound_ratio, one.bound_ratio)),
        relative_ratio=largest((cell.relative_ratio, one.relative_ratio)),
        nmse=largest((cell.nmse, one.nmse)),
        bit_exact=all(exact) if exact else None,
        build_digest=cell.build_digest if cell.build_digest == one.build_digest else "",
    )
