"""Boards' exams, boards that are set aside, and lines that are suspect by it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "exam",
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("examined_us", sa.BigInteger(), nullable=True),
        sa.Column("aside_us", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["device.slug"], name=op.f("fk_exam_device_device")),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_exam")),
    )
    op.add_column("evidence", sa.Column("suspect", sa.Boolean(), nullable=False, server_default=sa.false()))
