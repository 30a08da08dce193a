"""Times of cases, kept in series, and campaigns that ask for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

CELL = ("device", "backend", "op", "kernel", "kind", "build", "source_digest")
SIZES = {"device": 128, "kernel": 64, "kind": 128, "source_digest": 64}


def upgrade() -> None:
    op.create_table(
        "benchmark",
        sa.Column("evidence_id", sa.String(length=36), nullable=False),
        sa.Column("case_id", sa.String(length=64), nullable=False),
        *(sa.Column(name, sa.String(SIZES.get(name, 32)), nullable=False) for name in CELL),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("build_digest", sa.String(length=64), nullable=False),
        sa.Column("finished_us", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.Column("median_us", sa.Float(53), nullable=False),
        sa.Column("gb_per_s", sa.Float(53), nullable=False),
        sa.Column("share_of_least", sa.Float(53)),
        sa.Column("benchmark_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("evidence_id", name=op.f("pk_benchmark")),
    )
    op.create_index(op.f("ix_benchmark_case_id"), "benchmark", ["case_id"])
    asked: sa.Column[bool] = sa.Column("bench", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("campaign", asked)
