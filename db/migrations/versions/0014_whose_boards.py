"""Whose a board is: the farm's own, or the token's whose worker spoke for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    own: sa.Column[bool] = sa.Column("own", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("device", own)
    # With its foreign key in one statement: SQLite can't add the key later.
    kind = "INTEGER" if op.get_bind().dialect.name == "sqlite" else "BIGINT"
    name = "fk_device_token_id_token"
    op.execute(f"ALTER TABLE device ADD COLUMN token_id {kind} CONSTRAINT {name} REFERENCES token (id)")
    # The coordinator's own lines say `own` of rented boards too.
    op.execute(
        "UPDATE device SET own = true WHERE slug IN"
        " (SELECT DISTINCT device FROM evidence WHERE trust = 'own' AND origin = 'worker')"
    )
