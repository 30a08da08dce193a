"""Cells that grow by a batch of lines: what a whole fold gives, told from the touched cases where it can be.

was = before(s, keys, case_ids)     # then the lines are stored
refold(s, was, added)

Most lines of a campaign say nothing new: PASS, of a case that its cell didn't have or that passed before with
the same figures. Then a cell follows from what it was and what its touched cases are. If not, a fold tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter

from db.capability import cells_of, fold_cells, plain_findings, renew
from db.cell import Capability, CellKey, Finding, Standing, largest, least_trusted, standing
from db.session import Session
from kernels.evidence import Verdict

# What a case adds to its cell, besides verdict and time.
same_figures = attrgetter(
    "reason", "positions", "bound_ratio", "relative_ratio", "nmse", "bit_exact", "twin_agrees",
    "build_digest", "notes",
)  # fmt: skip
DOUBTS = {"flaky", "suspect"}  # flags that a line may take away or bring


@dataclass(frozen=True)
class Cells:
    """Cells as they were, and what was said last of some of their cases: PASS or SKIP, and nothing else."""

    cells: dict[CellKey, Capability]
    findings: dict[CellKey, list[Finding]]


def before(s: Session, keys: Iterable[CellKey], case_ids: Set[str]) -> Cells:
    """The cells that lines are about to be added to, and where the cases of those lines stand in them."""
    cells = cells_of(s, sorted(set(keys)))
    findings = plain_findings(s, list(cells), case_ids) if cells else {}
    return Cells({key: cells[key] for key in findings}, findings)


def refold(s: Session, was: Cells, added: Sequence[Finding]) -> None:
    """Brings the cells of stored lines up to date; `was` is from before they were stored."""
    by_cell: defaultdict[CellKey, list[Finding]] = defaultdict(list)
    for one in added:
        by_cell[one.key].append(one)
    grown = {
        key: grow(was.cells[key], was.findings[key], by_cell[key]) for key in by_cell if key in was.cells
    }
    renew(s, [cell for key, cell in grown.items() if cell and cell != was.cells[key]])
    fold_cells(s, [key for key in by_cell if grown.get(key) is None])


def grow(cell: Capability, findings: Iterable[Finding], added: Sequence[Finding]) -> Capability | None:
    """The cell with the `added` lines, given all others of the same cases; None where a fold must tell."""
    if cell.verdict is not Verdict.PASS or cell.reason or not DOUBTS.isdisjoint(cell.flags):
        return None
    # An old bad line that comes late says nothing beside the newest PASS, and may contradict an older one.
    if not all(one.verdict in (Verdict.PASS, Verdict.SKIP) for one in added):
        return None
    stood, new = _by_case(findings), _by_case(added)
    figures = Figures(cell)
    for case_id, lines in new.items():
        earlier = stood.get(case_id, [])
        now = standing([*earlier, *lines])
        if not _is_plain(now) or now.counts.device_class != cell.device_class:
            return None
        if not (_says_the_same(standing(earlier), now) if earlier else figures.add(now.counts)):
            return None
        if now.counts.verdict is not Verdict.SKIP:
            figures.last_run_us = max(figures.last_run_us, now.counts.finished_us)
    return figures.of(cell)


def _by_case(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in findings:
        found.setdefault(one.case_id, []).append(one)
    return found


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
    return same_figures(was.counts) == same_figures(now.counts)


class Figures:
    """A PASS cell's figures while cases are added to it."""

    def __init__(self, cell: Capability) -> None:
        self.rungs, self.flags = cell.rungs, cell.flags
        self.cases, self.skipped, self.positions = cell.cases, cell.skipped, cell.positions
        self.bound_ratio, self.relative_ratio, self.nmse = cell.bound_ratio, cell.relative_ratio, cell.nmse
        self.bit_exact, self.build_digest = cell.bit_exact, cell.build_digest
        self.last_run_us, self.trust = cell.last_run_us, cell.trust

    def add(self, one: Finding) -> bool:
        """Takes one case more in, PASS or SKIP; False where the cell doesn't tell enough about the others."""
        self.trust = least_trusted((self.trust, one.trust))
        if one.verdict is Verdict.SKIP:
            self.skipped += 1
            return True
        if one.twin_agrees and "twin" not in self.rungs:
            return False  # a case may have contradicted its twin, or none had one
        self.cases += 1
        self.positions += one.positions
        lost = ("twin",) * (one.twin_agrees is False) + ("exact",) * (not one.bit_exact)
        self.rungs = tuple(rung for rung in self.rungs if rung not in lost) if lost else self.rungs
        if one.notes:
            self.flags = tuple(sorted({*self.flags, *filter(None, one.notes.split(","))}))
        self.bound_ratio = largest((self.bound_ratio, one.bound_ratio))
        self.relative_ratio = largest((self.relative_ratio, one.relative_ratio))
        self.nmse = largest((self.nmse, one.nmse))
        exact = [said for said in (self.bit_exact, one.bit_exact) if said is not None]
        self.bit_exact = all(exact) if exact else None
        self.build_digest = self.build_digest if self.build_digest == one.build_digest else ""
        return True

    def of(self, cell: Capability) -> Capability:
        return cell._replace(**vars(self))
