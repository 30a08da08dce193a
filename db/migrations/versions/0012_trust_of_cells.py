"""How far a cell may be trusted, boards that agreed about one, and how many cases two boards are to run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

CELL = ("device", "backend", "op", "kernel", "kind", "build", "source_digest")
SIZES = {"device": 128, "kernel": 64, "kind": 128, "source_digest": 64}
NAMES = ", ".join(CELL)
SAME = " AND ".join(f"{name} = :{name}" for name in CELL)
# Of each case the newest line about the kernel, else the newest, as cells are folded.
LEAST = f"""
    SELECT {NAMES}, min(CASE trust WHEN 'own' THEN 2 WHEN 'rented' THEN 1 ELSE 0 END) AS least FROM (
        SELECT {NAMES}, trust, row_number() OVER (
            PARTITION BY {NAMES}, case_id
            ORDER BY CASE WHEN verdict IN ('ERROR', 'LOST') THEN 1 ELSE 0 END,
                finished_us DESC, evidence_id DESC
        ) AS place FROM evidence WHERE folded
    ) AS line WHERE place = 1 GROUP BY {NAMES}
"""
TRUST = ("imported", "rented", "own")


def upgrade() -> None:
    share = sa.Column("twice", sa.Float(53), nullable=False, server_default="0")
    op.add_column("campaign", share)
    trust = sa.Column("trust", sa.String(length=16), nullable=False, server_default="own")
    op.add_column("capability", trust)
    op.create_table(
        "agreement",
        *(sa.Column(name, sa.String(SIZES.get(name, 32)), nullable=False) for name in CELL),
        sa.Column("other", sa.String(length=128), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=False),
        sa.Column("agreed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(*CELL, "other", "verdict", name=op.f("pk_agreement")),
    )
    s = op.get_bind()
    rows = [row._mapping for row in s.execute(sa.text(LEAST)) if TRUST[row.least] != "own"]
    less = [{name: row[name] for name in CELL} | {"trust": TRUST[row["least"]]} for row in rows]
    if less:
        s.execute(sa.text(f"UPDATE capability SET trust = :trust WHERE {SAME}"), less)
