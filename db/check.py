"""Whether a database says one thing only: references, queue, verdicts, and cells against their evidence.

check(s) -> Report(complaints, counts)      # reads only; rules in plain SQL, apart from the code they check
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from db.capability import rebuilt, stored
from db.session import Session
from db.tables import CELL, blob, metadata

LIVE = "attempt.state IN ('leased', 'started')"
CELLS = ", ".join(CELL)
SAME_CELL = " AND ".join(f"capability.{name} = mine.{name}" for name in CELL)
SEVERITY = (
    "CASE {} WHEN 'FAIL' THEN 1 WHEN 'CRASH' THEN 2 WHEN 'TIMEOUT' THEN 3 WHEN 'REJECT' THEN 4"
    " WHEN 'ERROR' THEN 5 WHEN 'LOST' THEN 6 WHEN 'PASS' THEN 7 ELSE 8 END"
)
# The line that counts for each case of a cell: the newest about the kernel, else the newest.
COUNTED = f"""
    SELECT {CELLS}, case_id, verdict, positions, finished_us, row_number() OVER (
        PARTITION BY {CELLS}, case_id
        ORDER BY CASE WHEN verdict IN ('ERROR', 'LOST') THEN 1 ELSE 0 END, finished_us DESC, evidence_id DESC
    ) AS place FROM evidence WHERE folded
"""
REFOLDED = f"""
    SELECT {CELLS}, sum(CASE WHEN verdict = 'SKIP' THEN 0 ELSE 1 END) AS cases, count(*) AS lines,
        sum(CASE WHEN verdict = 'SKIP' THEN 0 ELSE positions END) AS positions,
        min({SEVERITY.format("verdict")}) AS worst
    FROM ({COUNTED}) AS line WHERE place = 1 GROUP BY {CELLS}
"""


@dataclass(frozen=True)
class Rule:
    """A query that finds nothing in a database that is right; its first column names an example."""

    says: str  # what is wrong, after a count
    sql: str


RULES = (
    Rule(
        "jobs are held by several attempts at once",
        f"SELECT job_id FROM attempt WHERE {LIVE} GROUP BY job_id HAVING count(*) > 1",
    ),
    Rule(
        "leased jobs are held by no attempt",
        "SELECT id FROM job WHERE state = 'leased'"
        f" AND NOT EXISTS (SELECT 1 FROM attempt WHERE attempt.job_id = job.id AND {LIVE})",
    ),
    Rule(
        "waiting jobs are held by an attempt",
        "SELECT job.id FROM job JOIN attempt ON attempt.job_id = job.id"
        f" WHERE job.state = 'waiting' AND {LIVE}",
    ),
    Rule(
        "jobs have no target, or another's",
        "SELECT job.id FROM job LEFT JOIN target ON target.id = job.target_id"
        " AND target.campaign_id = job.campaign_id AND target.backend = job.backend"
        " AND target.device_class = job.device_class WHERE target.id IS NULL",
    ),
    Rule(
        "attempts are at no job",
        "SELECT attempt_id FROM attempt LEFT JOIN job ON job.id = attempt.job_id WHERE job.id IS NULL",
    ),
    Rule(
        "lines are of no attempt",
        "SELECT evidence_id FROM evidence LEFT JOIN attempt ON attempt.attempt_id = evidence.attempt_id"
        " WHERE evidence.attempt_id IS NOT NULL AND attempt.attempt_id IS NULL",
    ),
    Rule(
        "jobs were decided by a line that isn't here",
        "SELECT job.id FROM job LEFT JOIN evidence ON evidence.evidence_id = job.evidence_id"
        " WHERE job.evidence_id IS NOT NULL AND evidence.evidence_id IS NULL",
    ),
    Rule(
        "jobs have another verdict than the line that decided them, or it is about another case",
        "SELECT job.id FROM job JOIN evidence ON evidence.evidence_id = job.evidence_id"
        " WHERE job.verdict <> coalesce(evidence.rule_verdict, evidence.verdict)"
        " OR job.case_id <> evidence.case_id OR job.backend <> evidence.backend",
    ),
    Rule(
        "lines decided several jobs",
        "SELECT evidence_id FROM job WHERE evidence_id IS NOT NULL GROUP BY evidence_id HAVING count(*) > 1",
    ),
    Rule(
        "jobs have a verdict without a line, though nobody cancelled them",
        "SELECT job.id FROM job JOIN campaign ON campaign.id = job.campaign_id WHERE job.state = 'done'"
        " AND job.evidence_id IS NULL AND (campaign.cancelled_us IS NULL OR job.verdict <> 'SKIP')",
    ),
    Rule(
        "campaigns are closed over jobs without a verdict",
        "SELECT campaign.id FROM campaign JOIN job ON job.campaign_id = campaign.id"
        " WHERE campaign.closed_us IS NOT NULL AND job.state IN ('waiting', 'leased') GROUP BY campaign.id",
    ),
    Rule(
        "lines of the coordinator blame a kernel",
        "SELECT evidence_id FROM evidence WHERE origin = 'coordinator' AND verdict NOT IN ('LOST', 'SKIP')",
    ),
    Rule(
        "cells have no evidence",
        f"SELECT capability.device FROM capability LEFT JOIN ({REFOLDED}) AS mine ON {SAME_CELL}"
        " WHERE mine.cases IS NULL",
    ),
    Rule(
        "cells differ from what their evidence counts up to",
        f"SELECT mine.device FROM ({REFOLDED}) AS mine LEFT JOIN capability ON {SAME_CELL}"
        " WHERE capability.cases IS NULL OR capability.cases <> mine.cases"
        " OR capability.cases + capability.skipped <> mine.lines OR capability.positions <> mine.positions"
        f" OR mine.worst <> {SEVERITY.format('capability.verdict')}",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What a check came to."""

    complaints: tuple[str, ...]  # empty where all is well
    counts: tuple[tuple[str, int], ...]  # rows of every table


def check(s: Session) -> Report:
    """Everything that can be said against a database, a line each."""
    found = [*_damage(s), *broken_rules(s), *_wrong_blobs(s), *_wrong_cells(s)]
    return Report(tuple(found), counts(s))


def counts(s: Session) -> tuple[tuple[str, int], ...]:
    """Rows of every table, by name."""
    one = sa.func.count()
    return tuple(
        (name, s.execute(sa.select(one).select_from(table)).scalar_one())
        for name, table in sorted(metadata.tables.items())
    )


def broken_rules(s: Session) -> list[str]:
    """The rules that the rows break."""
    found = []
    for rule in RULES:
        rows = s.exec_driver_sql(rule.sql).all()
        if rows:
            found.append(f"{len(rows):,} {rule.says}, as {rows[0][0]}")
    return found


def _damage(s: Session) -> list[str]:
    """What the database itself finds; a server keeps its references by itself."""
    if s.dialect.name != "sqlite":
        return []
    said = [str(line) for line in s.exec_driver_sql("PRAGMA integrity_check").scalars() if line != "ok"]
    broken = s.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        said.append(f"{len(broken):,} references lead nowhere, as from {broken[0][0]} to {broken[0][2]}")
    return said


def _wrong_blobs(s: Session) -> list[str]:
    wrong = [
        sha256
        for sha256, content in s.execute(sa.select(blob.c.sha256, blob.c.content))
        if hashlib.sha256(content).hexdigest() != sha256
    ]
    return [f"{len(wrong):,} blobs aren't what they were, as {wrong[0]}"] if wrong else []


def _wrong_cells(s: Session) -> list[str]:
    """Cells whose figures, reason or flags a fold of all their evidence doesn't give."""
    wanted, found = rebuilt(s), stored(s)
    wrong = sorted(key for key in {*wanted, *found} if wanted.get(key) != found.get(key))
    if not wrong:
        return []
    first = "/".join((wrong[0].device, wrong[0].backend, wrong[0].op, wrong[0].kernel, wrong[0].kind))
    return [f"{len(wrong):,} cells differ from a fold of their evidence, as {first}"]
