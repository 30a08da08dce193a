"""Everything that is known about a cell or a job, and what it rests on: what `farm show` shows."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from db import blob, capability, evidence
from db.blob import SourceText
from db.cell import CellKey, Standing
from db.job import JobRow, job_row
from db.session import Session
from farm.cell_name import find_cells
from farm.exports import record
from farm.matrix import Cell, Matrix, Row, counting, merge, worst_of
from farm.reader import source_digest
from kernels import codec, registry, source
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from kernels.model import Case


@dataclass(frozen=True)
class Field:
    """One field of a weight block, as it was in memory."""

    name: str
    offset: int  # bytes from the start of the block
    hex: str


@dataclass(frozen=True)
class Dossier:
    """A cell or a job with the line that decided it."""

    name: str
    cell: Cell | None  # None for a job
    parts: tuple[Cell, ...]  # the boards and builds that the cell is the worst of
    job: JobRow | None  # None for a cell
    cases: tuple[tuple[Verdict, int], ...]  # of the deciding board and build, worst first
    line: Evidence | None  # None where nothing came back
    block_kind: str  # of the worst element's weight block; empty where there is none
    block: tuple[Field, ...]
    current_digest: str  # of the source that this catalog has now; empty where it has none
    sources: tuple[SourceText, ...]  # the texts as they ran; empty where they weren't kept
    command: str  # runs it alone

    @property
    def is_stale(self) -> bool:
        return self.line is not None and self.line.source_digest != self.current_digest


def of_cell(s: Session, matrix: Matrix, name: str) -> tuple[Dossier, ...]:
    """One dossier per device class that the name fits."""
    by_class: dict[str, list[Cell]] = {}
    for cell in find_cells(matrix, name):
        by_class.setdefault(cell.device_class, []).append(cell)
    return tuple(of_parts(s, parts) for parts in by_class.values())


def of_job(s: Session, job_id: int) -> Dossier:
    """The line that decided a job, else the newest of its attempts'."""
    job = job_row(s, job_id)
    lines = [stored.line for stored in evidence.of_job(s, job_id)]
    decided = evidence.get(s, job.evidence_id) if job.evidence_id else None
    line = decided.line if decided else next(iter(lines), None)
    return _dossier(s, f"job {job_id}", job.case, job.backend, line=line, job=job)


def of_parts(s: Session, parts: Sequence[Cell]) -> Dossier:
    """The dossier of one class' boards and builds."""
    merged, worst = merge(parts), worst_of(counting(parts))
    if worst.verdict is None:
        return _never_run(merged, parts)
    key = CellKey(worst.device or "", worst.backend, *worst.row, worst.source_digest)
    stand = capability.standings(s, key)
    stored = evidence.get(s, _deciding(stand, worst).counts.evidence_id)
    assert stored is not None  # a standing is made of stored lines
    return _dossier(
        s,
        merged.name,
        stored.line.case,
        worst.backend,
        line=stored.line,
        cell=merged,
        parts=tuple(parts),
        cases=_tally(standing.counts.verdict for standing in stand),
    )


def _deciding(stand: Sequence[Standing], cell: Cell) -> Standing:
    """The case of the cell's verdict that is furthest past its limit, the newest of several."""
    mine = [standing for standing in stand if standing.counts.verdict is cell.verdict]
    return max(mine, key=lambda standing: (standing.counts.bound_ratio or 0.0, standing.counts.age))


def _tally(verdicts: Iterable[Verdict]) -> tuple[tuple[Verdict, int], ...]:
    counts = Counter(verdicts)
    return tuple((verdict, counts[verdict]) for verdict in Verdict if counts[verdict])


def _never_run(cell: Cell, parts: Sequence[Cell]) -> Dossier:
    builds = [f"--build {build}" for build in cell.build.split("+")]
    words = ["farm submit", f"--kernel {cell.op}/{cell.kernel}", f"--kind {cell.kind}", *builds]
    words += [f"--backend {cell.backend}", f"--device {cell.device or cell.device_class}"]
    digest = source_digest(parts[0].row)
    return Dossier(cell.name, cell, tuple(parts), None, (), None, "", (), digest, (), " ".join(words))


def _dossier(
    s: Session,
    name: str,
    case: Case,
    backend: str,
    *,
    line: Evidence | None,
    cell: Cell | None = None,
    parts: tuple[Cell, ...] = (),
    job: JobRow | None = None,
    cases: tuple[tuple[Verdict, int], ...] = (),
) -> Dossier:
    kind = _block_kind(line) if line else ""
    return Dossier(
        name=name,
        cell=cell,
        parts=parts,
        job=job,
        cases=cases,
        line=line,
        block_kind=kind,
        block=fields_of(kind, _block_hex(line)),
        current_digest=source_digest(Row(case.op, case.kernel, case.kind, case.build.value)),
        sources=_sources(s, line) if line else (),
        command=f"farm run {_catalog(case)}--case {shlex.quote(codec.canonical(case))} "
        f"--backend {backend}{_arch(line)}",
    )


def _catalog(case: Case) -> str:
    """What names the catalog of a kernel that isn't the farm's own; its folder is known to its author."""
    return "" if f"{case.op}/{case.kernel}" in registry.built_in() else "--catalog DIR "


def _arch(line: Evidence | None) -> str:
    """The architecture, where the backend has several of them on every machine."""
    return f" --device {line.device.slug}" if line and line.builds and not line.launches else ""


def _block_hex(line: Evidence | None) -> str:
    worst = line.comparison.worst if line and line.comparison else None
    return worst.block if worst else ""


def _block_kind(line: Evidence) -> str:
    """The kind of the launch that the worst element belongs to."""
    if not _block_hex(line):
        return ""
    assert line.comparison is not None
    assert line.comparison.worst is not None
    case = line.case
    try:
        plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
        return plan.launches[line.comparison.worst.launch].kind
    except (FarmError, IndexError, KeyError):  # a line of another catalog
        return case.kinds[0] if len(set(case.kinds)) == 1 else ""


def fields_of(kind_name: str, block_hex: str) -> tuple[Field, ...]:
    """A block cut into its kind's fields; one nameless field where the kind isn't known or differs."""
    if not block_hex:
        return ()
    whole = (Field("", 0, block_hex),)
    try:
        block = registry.kind(kind_name).block
    except FarmError:
        return whole
    if block.itemsize * 2 != len(block_hex) or block.fields is None:
        return whole
    found = []
    for name, (dtype, offset, *_) in block.fields.items():
        found.append(Field(name, offset, block_hex[2 * offset : 2 * (offset + dtype.itemsize)]))
    return tuple(sorted(found, key=lambda field: field.offset))


def _sources(s: Session, line: Evidence) -> tuple[SourceText, ...]:
    """The texts under the line's digest: stored ones, or this catalog's where it still makes the same."""
    if stored := blob.source_texts(s, line.source_digest):
        return stored
    case = line.case
    if source_digest(Row(case.op, case.kernel, case.kind, case.build.value)) != line.source_digest:
        return ()
    parts = registry.kernel(f"{case.op}/{case.kernel}").parts(case.kinds)
    return tuple(SourceText(kernel, kind, source.text(kernel, kind)) for kernel, kind in parts)


def document(dossier: Dossier) -> dict[str, Any]:
    """What `--json` prints of it."""
    job = dossier.job
    return {
        "name": dossier.name,
        "cell": record(dossier.cell) if dossier.cell else None,
        "parts": [record(cell) for cell in dossier.parts],
        "job": _job_record(job) if job else None,
        "cases": dict(dossier.cases),
        "evidence": codec.encode(dossier.line) if dossier.line else None,
        "block": {"kind": dossier.block_kind, "fields": [codec.encode(field) for field in dossier.block]},
        "stale": dossier.is_stale,
        "current_digest": dossier.current_digest,
        "sources": [codec.encode(text) for text in dossier.sources],
        "command": dossier.command,
    }


def _job_record(job: JobRow) -> dict[str, Any]:
    return {
        "id": job.id,
        "campaign": job.campaign_id,
        "backend": job.backend,
        "device_class": job.device_class,
        "state": job.state,
        "losses": job.losses,
        "verdict": job.verdict,
        "case_id": job.case_id,
    }
