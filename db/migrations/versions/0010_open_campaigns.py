"""An index of the campaigns that are open, which a lease looks at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

OPEN = sa.text("closed_us IS NULL")


def upgrade() -> None:
    op.create_index("ix_campaign_open", "campaign", ["id"], sqlite_where=OPEN, postgresql_where=OPEN)
