"""When a campaign's jobs for a device class were made: with the campaign, or when the class joined."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("target", sa.Column("made_us", sa.BigInteger()))
