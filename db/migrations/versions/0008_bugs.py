"""Bugs that are linked to cells."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "bug",
        sa.Column("id", row_id, nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=32), nullable=False),
        sa.Column("kernel", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("build", sa.String(length=32), nullable=False),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("linked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bug")),
        sa.UniqueConstraint(
            "device_class", "backend", "op", "kernel", "kind", "build", "url",
            name=op.f("uq_bug_device_class_backend_op_kernel_kind_build_url"),
        ),
    )  # fmt: skip
