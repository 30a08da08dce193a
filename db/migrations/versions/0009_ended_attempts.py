"""An index over when attempts ended: how fast boards work is asked every second."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_index("ix_attempt_ended_us", "attempt", ["ended_us"])
