"""Runs migrations on the connection that `db.session` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
