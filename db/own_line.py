"""The lines that the coordinator itself writes: for what no worker can tell any more, or need not try."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db import device
from db.cases import case_of
from db.session import Session
from db.tables import cases
from kernels.evidence import Evidence, Verdict
from kernels.model import Case, Device


@dataclass(frozen=True)
class About:
    """What a line is about."""

    case: Case
    case_id: str
    source_digest: str
    inputs_digest: str
    board: Device
    backend: str
    repeats: int
    attempt_id: str = ""


def own_line(
    evidence_id: str, about: About, verdict: Verdict, reason: str, during: tuple[int, int]
) -> Evidence:
    """Evidence without outputs; `during` is when it started and finished, in microseconds since 1970."""
    return Evidence(
        evidence_id=evidence_id,
        case=about.case,
        case_id=about.case_id,
        source_digest=about.source_digest,
        inputs_digest=about.inputs_digest,
        output_digest="",
        device=about.board,
        backend=about.backend,
        verdict=verdict,
        reason=reason,
        comparison=None,
        repeats=about.repeats,
        launches=(),
        compiler="",
        flags="",
        started_us=during[0],
        finished_us=during[1],
        versions=(),
        attempt_id=about.attempt_id,
        origin="coordinator",
    )


def lines_instead(
    s: Session, rows: Mapping[str, Any], reasons: Mapping[str, str], verdict: Verdict, now_us: int
) -> dict[str, Evidence]:
    """Lines in the place of those that attempts left none of, with a reason for each; all by attempt id.

    `rows` are of db.attempt.
    """
    chosen = {row.case_id for row in rows.values()}
    query = sa.select(cases.c.case_id, cases.c.case_json).where(cases.c.case_id.in_(chosen))
    texts = {row.case_id: row.case_json for row in s.execute(query)} if rows else {}
    boards = {slug: device.newest(s, slug) for slug in {row.device for row in rows.values()}}
    found = {}
    for attempt_id, row in rows.items():
        board, case = boards[row.device], case_of(texts[row.case_id])
        digests = (row.source_digest, row.inputs_digest)
        about = About(case, row.case_id, *digests, board, row.backend, row.repeats, attempt_id)
        # Made from the attempt's id, so that writing it twice is writing it once.
        line_id = str(uuid.uuid5(uuid.UUID(attempt_id), "coordinator"))
        during = (row.started_us or now_us, now_us)
        found[attempt_id] = own_line(line_id, about, verdict, reasons[attempt_id], during)
    return found
