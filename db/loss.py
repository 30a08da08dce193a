"""The lines that the coordinator writes for started attempts whose worker left none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from db import device as devices
from db.campaign import case_of
from db.evidence import Entry
from db.session import Session
from db.tables import cases
from kernels.model import Case, Device, Evidence, Verdict


def coordinator_entries(
    s: Session, rows: Sequence[Any], spent: set[int], now_us: int, reason: str
) -> list[Entry]:
    """The lines of started attempts that left none; only a job's last one counts for its cell."""
    boards = {slug: devices.newest(s, slug) for slug in {row.device for row in rows}}
    query = sa.select(cases.c.case_id, cases.c.case_json).where(
        cases.c.case_id.in_({row.case_id for row in rows})
    )
    texts = {row.case_id: row.case_json for row in s.execute(query)} if rows else {}
    return [
        Entry(
            _line(row, case_of(texts[row.case_id]), boards[row.device], now_us, reason),
            row.attempt_id,
            folded=row.job_id in spent,
        )
        for row in rows
    ]


def _line(row: Any, case: Case, board: Device, now_us: int, reason: str) -> Evidence:
    return Evidence(
        # Made from the attempt's id, so that writing it twice is writing it once.
        evidence_id=str(uuid.uuid5(uuid.UUID(row.attempt_id), "coordinator")),
        case=case,
        case_id=row.case_id,
        source_digest=row.source_digest,
        inputs_digest=row.inputs_digest,
        output_digest="",
        device=board,
        backend=row.backend,
        verdict=Verdict.LOST,
        reason=reason,
        comparison=None,
        repeats=row.repeats,
        launches=(),
        compiler="",
        flags="",
        started_us=row.started_us,
        finished_us=now_us,
        versions=(),
        attempt_id=row.attempt_id,
        origin="coordinator",
    )
