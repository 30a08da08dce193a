"""Cells are dated by what ran in them: no longer by ERROR, LOST and SKIP where anything else was said."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

CELL = ("device", "backend", "op", "kernel", "kind", "build", "source_digest")
NAMES = ", ".join(CELL)
OF_CELL = ", ".join(f"capability.{name}" for name in CELL)
JOINED = " AND ".join(f"dated.{name} = capability.{name}" for name in CELL)
SAME = " AND ".join(f"{name} = :{name}" for name in CELL)
# Of each case the newest line about the kernel, else the newest, as cells are folded.
MISDATED = f"""
    SELECT {OF_CELL}, dated.ran_us FROM capability JOIN (
        SELECT {NAMES}, coalesce(
            max(CASE WHEN verdict NOT IN ('ERROR', 'LOST', 'SKIP') THEN finished_us END), max(finished_us)
        ) AS ran_us FROM (
            SELECT {NAMES}, verdict, finished_us, row_number() OVER (
                PARTITION BY {NAMES}, case_id
                ORDER BY CASE WHEN verdict IN ('ERROR', 'LOST') THEN 1 ELSE 0 END,
                    finished_us DESC, evidence_id DESC
            ) AS place FROM evidence WHERE folded
        ) AS line WHERE place = 1 GROUP BY {NAMES}
    ) AS dated ON {JOINED} WHERE dated.ran_us <> capability.last_run_us
"""


def upgrade() -> None:
    s = op.get_bind()
    rows = [dict(row._mapping) for row in s.execute(sa.text(MISDATED))]
    if rows:
        s.execute(sa.text(f"UPDATE capability SET last_run_us = :ran_us WHERE {SAME}"), rows)
