"""Runs migrations on the connection that `db.session` hands over, inside its transaction.

Migrations only go up: to go back, restore a copy of the database. A released one is never edited.
"""

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
