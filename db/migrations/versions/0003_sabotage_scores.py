"""Sabotage scores: how many mutants of each text the rules killed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "sabotage",
        sa.Column("kernel", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("ran_us", sa.BigInteger(), nullable=False),
        sa.Column("cases", sa.Integer(), nullable=False),
        sa.Column("mutants", sa.Integer(), nullable=False),
        sa.Column("compiled", sa.Integer(), nullable=False),
        sa.Column("killed_json", sa.Text(), nullable=False),
        sa.Column("by_relative", sa.Integer(), nullable=False),
        sa.Column("by_nmse", sa.Integer(), nullable=False),
        sa.Column("same", sa.Integer(), nullable=False),
        sa.Column("equivalents", sa.Integer(), nullable=False),
        sa.Column("survivors_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kernel", "kind", "source_digest", name=op.f("pk_sabotage")),
    )
