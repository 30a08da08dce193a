"""Removes what no cell rests on: old closed campaigns with their jobs, and lines that newer ones outdid.

prune(s, before_us) -> tuple[Removed, ...]      # FarmError, and nothing removed, should a cell change by it

Kept, however old: every open campaign; every line of a job that is kept; and of every case, board and
source the newest line of each verdict, which a cell's verdict, its trouble and its flags are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.capability import rebuilt, stored
from db.session import Session
from db.tables import CELL, attempt, blob, campaign, cases, evidence, job, metadata, planned, source, target
from kernels.errors import FarmError


@dataclass(frozen=True)
class Removed:
    """Rows of one sort that went."""

    noun: str
    rows: int


def prune(s: Session, before_us: int) -> tuple[Removed, ...]:
    """Removes what ended before a moment, in microseconds since 1970, and decides nothing."""
    old = _old_campaigns(s, before_us)
    gone = [*_remove_campaigns(s, old), *_remove_lines(s, before_us), *_remove_unused(s)]
    if rebuilt(s) != stored(s):
        raise FarmError("a cell would change; nothing is removed: farm db check says what is wrong")
    return tuple(gone)


def _old_campaigns(s: Session, before_us: int) -> list[int]:
    """Campaigns that closed before then; one that a kept campaign is a retry of is kept with it."""
    rows = s.execute(sa.select(campaign.c.id, campaign.c.closed_us, campaign.c.retry_of)).all()
    old = {row.id for row in rows if row.closed_us is not None and row.closed_us < before_us}
    while kept := {row.retry_of for row in rows if row.id not in old} & old:
        old -= kept
    return sorted(old)


def _remove_campaigns(s: Session, ids: list[int]) -> Iterator[Removed]:
    """The rows of campaigns; lines of their attempts stay, and know no attempt here any more."""
    jobs = sa.select(job.c.id).where(job.c.campaign_id.in_(ids))
    attempts = sa.select(attempt.c.attempt_id).where(attempt.c.job_id.in_(jobs))
    s.execute(sa.update(evidence).where(evidence.c.attempt_id.in_(attempts)).values(attempt_id=None))
    yield _delete(s, "attempts", attempt, attempt.c.job_id.in_(jobs))
    yield _delete(s, "jobs", job, job.c.campaign_id.in_(ids))
    for table in (target, planned):
        s.execute(sa.delete(table).where(table.c.campaign_id.in_(ids)))
    yield _delete(s, "campaigns", campaign, campaign.c.id.in_(ids))


def _remove_lines(s: Session, before_us: int) -> Iterator[Removed]:
    place = sa.func.row_number().over(
        partition_by=[evidence.c[name] for name in (*CELL, "case_id", "verdict", "fingerprint_digest")],
        order_by=[evidence.c.finished_us.desc(), evidence.c.evidence_id.desc()],
    )
    ranked = sa.select(evidence.c.evidence_id, place.label("place")).where(evidence.c.folded).subquery()
    deciding = sa.select(ranked.c.evidence_id).where(ranked.c.place == 1)
    decided = sa.select(job.c.evidence_id).where(job.c.evidence_id.is_not(None))
    outdone = sa.and_(
        evidence.c.stored_us < before_us,
        evidence.c.attempt_id.is_(None),  # else its job is there, and can be asked why it ended so
        evidence.c.evidence_id.not_in(deciding),
        evidence.c.evidence_id.not_in(decided),
    )
    yield _delete(s, "lines of evidence", evidence, outdone)


def _remove_unused(s: Session) -> Iterator[Removed]:
    """Cases and texts that nothing kept is about."""
    used = sa.union(sa.select(evidence.c.case_id), sa.select(planned.c.case_id))
    yield _delete(s, "cases", cases, cases.c.case_id.not_in(used))
    digests = sa.union(sa.select(evidence.c.source_digest), sa.select(planned.c.source_digest))
    s.execute(sa.delete(source).where(source.c.source_digest.not_in(digests)))
    named = sa.union(*(sa.select(column) for column in _columns_that_name(blob.c.sha256)))
    yield _delete(s, "source texts", blob, blob.c.sha256.not_in(named))


def _columns_that_name(key: sa.Column[str]) -> list[sa.Column[Any]]:
    """Every column that refers to another table's key, whichever tables there are."""
    columns = (column for table in metadata.tables.values() for column in table.c)
    return [column for column in columns if any(fk.column is key for fk in column.foreign_keys)]


def _delete(s: Session, noun: str, table: sa.Table, where: sa.ColumnElement[bool]) -> Removed:
    return Removed(noun, s.execute(sa.delete(table).where(where)).rowcount)
