"""What compilers made: a digest of the code, and what its author should know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TEXT = sa.String(length=64)


def upgrade() -> None:
    op.add_column("evidence", sa.Column("build_digest", TEXT, nullable=False, server_default=""))
    op.add_column("evidence", sa.Column("notes", TEXT, nullable=False, server_default=""))
    op.add_column("capability", sa.Column("build_digest", TEXT, nullable=False, server_default=""))
