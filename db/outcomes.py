"""What campaigns came to, cell by cell, and which cases devices have reached.

of_campaign(s, id) -> tuple[Tried, …]     # one per job that is done
reached(s) -> {(device class, backend): case ids}
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.cases import case_of
from db.cell import CellKey
from db.session import Session
from db.tables import capability, cases, evidence, job, planned
from kernels.evidence import Verdict
from kernels.model import Case


@dataclass(frozen=True)
class Tried:
    """A decided job with the figures of the line that decided it."""

    case: Case
    device_class: str
    backend: str
    verdict: Verdict
    source_digest: str
    bound_ratio: float | None  # None where nothing was compared
    build_digest: str  # of the code that ran; empty where not known
    flaky: bool  # of its cell


def of_campaign(s: Session, campaign_id: int) -> tuple[Tried, ...]:
    """The jobs of a campaign that have a verdict, in the order in which they were leased."""
    query = (
        sa.select(
            job.c.device_class, job.c.backend, job.c.verdict, planned.c.source_digest, cases.c.case_json,
            evidence.c.device, evidence.c.bound_ratio, evidence.c.build_digest,
        )
        .join_from(job, planned)
        .join(cases, cases.c.case_id == job.c.case_id)
        .outerjoin(evidence, evidence.c.evidence_id == job.c.evidence_id)
        .where(job.c.campaign_id == campaign_id, job.c.verdict.is_not(None))
        .order_by(job.c.id)
    )  # fmt: skip
    flaky = _flaky(s)
    return tuple(_tried(row, flaky) for row in s.execute(query))


def _tried(row: Any, flaky: set[CellKey]) -> Tried:
    case = case_of(row.case_json)
    cell = (case.op, case.kernel, case.kind, case.build.value, row.source_digest)
    return Tried(
        case, row.device_class, row.backend, Verdict(row.verdict), row.source_digest, row.bound_ratio,
        row.build_digest or "", CellKey(row.device or "", row.backend, *cell) in flaky,
    )  # fmt: skip


def _flaky(s: Session) -> set[CellKey]:
    names = [capability.c[name] for name in CellKey._fields]
    return {CellKey(*row) for row in s.execute(sa.select(*names).where(capability.c.flags.contains("flaky")))}


def reached(s: Session) -> dict[tuple[str, str], set[str]]:
    """The cases that a device class has evidence about a kernel for, whatever came of it."""
    told = [verdict.value for verdict in Verdict if verdict.about_kernel]
    columns = (evidence.c.device_class, evidence.c.backend, evidence.c.case_id)
    query = sa.select(*columns).where(evidence.c.folded, evidence.c.verdict.in_(told)).distinct()
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for device_class, backend, case_id in s.execute(query):
        found[device_class, backend].add(case_id)
    return dict(found)
