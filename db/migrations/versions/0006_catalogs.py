"""Users' catalogs, and which campaign's kernels are in which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "pack",
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("kernels_json", sa.Text(), nullable=False),
        sa.Column("stored_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["address"], ["blob.sha256"], name=op.f("fk_pack_address_blob")),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_pack")),
    )
    op.add_column("campaign", sa.Column("pack", sa.String(length=64), nullable=False, server_default=""))
