"""Targets with what they need of a worker; pause, cancel, retry; boards to avoid, crashes to confirm."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("state = 'waiting'")


def upgrade() -> None:
    _campaigns()
    _targets()
    _jobs()


def _campaigns() -> None:
    op.add_column("campaign", sa.Column("paused_us", sa.BigInteger(), nullable=True))
    op.add_column("campaign", sa.Column("cancelled_us", sa.BigInteger(), nullable=True))
    _add_reference("campaign", "retry_of", "campaign")


def _targets() -> None:
    op.add_column("planned", sa.Column("needs", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "target",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("campaign_id", ROW_ID, nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("needs", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_target_campaign_id_campaign")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_target")),
        sa.UniqueConstraint(
            "campaign_id",
            "backend",
            "device_class",
            "needs",
            name=op.f("uq_target_campaign_id_backend_device_class_needs"),
        ),
    )
    op.execute(
        "INSERT INTO target (campaign_id, backend, device_class, needs)"
        " SELECT DISTINCT campaign_id, backend, device_class, '' FROM job"
        " ORDER BY campaign_id, device_class, backend"
    )


def _jobs() -> None:
    _add_reference("job", "target_id", "target")
    op.add_column("job", sa.Column("avoid", sa.String(length=128), nullable=True))
    op.add_column("job", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE job SET target_id = (SELECT target.id FROM target WHERE target.campaign_id = job.campaign_id"
        " AND target.backend = job.backend AND target.device_class = job.device_class)"
    )
    op.drop_index("ix_job_waiting", table_name="job")
    op.create_index(
        "ix_job_waiting",
        "job",
        ["target_id", "id"],
        unique=False,
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )


def _add_reference(table: str, column: str, other: str) -> None:
    """A column with its foreign key in one statement: SQLite can't add the key later."""
    kind = "INTEGER" if op.get_bind().dialect.name == "sqlite" else "BIGINT"
    name = f"fk_{table}_{column}_{other}"
    op.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind} CONSTRAINT {name} REFERENCES {other} (id)")
