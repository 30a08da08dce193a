"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# SQLite counts up by itself in a column of type INTEGER only.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _what_is_asked()
    _who_works()
    _jobs()
    _attempts()
    _evidence()
    _capability()


def _what_is_asked() -> None:
    op.create_table(
        "cases",
        sa.Column("case_id", sa.String(length=64), nullable=False),
        sa.Column("inputs_key", sa.String(length=64), nullable=False),
        sa.Column("case_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("case_id", name=op.f("pk_cases")),
    )
    op.create_table(
        "fixture",
        sa.Column("inputs_key", sa.String(length=64), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("inputs_key", name=op.f("pk_fixture")),
    )
    op.create_table(
        "blob",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blob")),
    )
    op.create_table(
        "source",
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kernel", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["sha256"], ["blob.sha256"], name=op.f("fk_source_sha256_blob")),
        sa.PrimaryKeyConstraint("source_digest", "part", name=op.f("pk_source")),
    )
    op.create_table(
        "campaign",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("rule", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("closed_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
    )
    op.create_table(
        "planned",
        sa.Column("campaign_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("case_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_planned_campaign_id_campaign")
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.case_id"], name=op.f("fk_planned_case_id_cases")),
        sa.PrimaryKeyConstraint("campaign_id", "case_id", name=op.f("pk_planned")),
    )


def _who_works() -> None:
    op.create_table(
        "device",
        sa.Column("slug", sa.String(length=128), nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uuid", sa.String(length=128), nullable=False),
        sa.Column("fingerprint_digest", sa.String(length=64), nullable=False),
        sa.Column("first_seen_us", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("slug", name=op.f("pk_device")),
    )
    op.create_index(op.f("ix_device_device_class"), "device", ["device_class"], unique=False)
    op.create_table(
        "fingerprint",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("device_json", sa.Text(), nullable=False),
        sa.Column("first_seen_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["device.slug"], name=op.f("fk_fingerprint_device_device")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_fingerprint")),
    )
    op.create_index(op.f("ix_fingerprint_device"), "fingerprint", ["device"], unique=False)
    op.create_table(
        "epoch",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("raised_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_epoch_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_epoch")),
    )


def _jobs() -> None:
    op.create_table(
        "job",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("campaign_id", ROW_ID, nullable=False),
        sa.Column("case_id", sa.String(length=64), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=True),
        sa.Column("evidence_id", sa.String(length=36), nullable=True),
        sa.Column("done_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(state = 'done') = (verdict IS NOT NULL)", name=op.f("ck_job_verdict_when_done")),
        sa.CheckConstraint("state IN ('waiting', 'leased', 'done')", name=op.f("ck_job_state")),
        sa.ForeignKeyConstraint(
            ["campaign_id", "case_id"],
            ["planned.campaign_id", "planned.case_id"],
            name=op.f("fk_job_campaign_id_case_id_planned"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint(
            "campaign_id",
            "case_id",
            "backend",
            "device_class",
            name=op.f("uq_job_campaign_id_case_id_backend_device_class"),
        ),
    )
    op.create_index("ix_job_open", "job", ["campaign_id", "state", "verdict"], unique=False)
    op.create_index(
        "ix_job_waiting",
        "job",
        ["campaign_id", "device_class", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )


def _attempts() -> None:
    op.create_table(
        "attempt",
        sa.Column("attempt_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", ROW_ID, nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("leased_us", sa.BigInteger(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('leased', 'started', 'done', 'returned', 'MISS')", name=op.f("ck_attempt_state")
        ),
        sa.ForeignKeyConstraint(["device"], ["device.slug"], name=op.f("fk_attempt_device_device")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_attempt_job_id_job")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempt")),
    )
    op.create_index(op.f("ix_attempt_job_id"), "attempt", ["job_id"], unique=False)
    op.create_index(
        "ix_attempt_live",
        "attempt",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("state IN ('leased', 'started')"),
        postgresql_where=sa.text("state IN ('leased', 'started')"),
    )


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("evidence_id", sa.String(length=36), nullable=False),
        sa.Column("case_id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.String(length=36), nullable=True),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=32), nullable=False),
        sa.Column("kernel", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("build", sa.String(length=32), nullable=False),
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("fingerprint_digest", sa.String(length=64), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.Column("output_digest", sa.String(length=64), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rule", sa.String(length=16), nullable=False),
        sa.Column("rule_verdict", sa.String(length=8), nullable=True),
        sa.Column("judge", sa.String(length=16), nullable=True),
        sa.Column("bound_ratio", sa.Float(precision=53), nullable=True),
        sa.Column("relative_ratio", sa.Float(precision=53), nullable=True),
        sa.Column("nmse", sa.Float(precision=53), nullable=True),
        sa.Column("nan_positions_equal", sa.Boolean(), nullable=True),
        sa.Column("bit_exact", sa.Boolean(), nullable=True),
        sa.Column("twin_agrees", sa.Boolean(), nullable=True),
        sa.Column("positions", sa.BigInteger(), nullable=False),
        sa.Column("bad", sa.BigInteger(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("finished_us", sa.BigInteger(), nullable=False),
        sa.Column("stored_us", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("trust", sa.String(length=16), nullable=False),
        sa.Column("folded", sa.Boolean(), nullable=False),
        sa.Column("copies", sa.Integer(), nullable=False),
        sa.Column("line_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempt.attempt_id"], name=op.f("fk_evidence_attempt_id_attempt")
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.case_id"], name=op.f("fk_evidence_case_id_cases")),
        sa.ForeignKeyConstraint(["device"], ["device.slug"], name=op.f("fk_evidence_device_device")),
        sa.ForeignKeyConstraint(
            ["fingerprint_digest"],
            ["fingerprint.digest"],
            name=op.f("fk_evidence_fingerprint_digest_fingerprint"),
        ),
        sa.PrimaryKeyConstraint("evidence_id", name=op.f("pk_evidence")),
    )
    op.create_index(op.f("ix_evidence_attempt_id"), "evidence", ["attempt_id"], unique=False)
    op.create_index(op.f("ix_evidence_case_id"), "evidence", ["case_id"], unique=False)
    op.create_index(
        "ix_evidence_cell",
        "evidence",
        ["source_digest", "device", "backend", "case_id", "verdict", "finished_us", "evidence_id"],
        unique=False,
    )


def _capability() -> None:
    op.create_table(
        "capability",
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=32), nullable=False),
        sa.Column("kernel", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("build", sa.String(length=32), nullable=False),
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("device_class", sa.String(length=128), nullable=False),
        sa.Column("verdict", sa.String(length=8), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rungs", sa.String(length=64), nullable=False),
        sa.Column("flags", sa.String(length=64), nullable=False),
        sa.Column("cases", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("positions", sa.BigInteger(), nullable=False),
        sa.Column("bound_ratio", sa.Float(precision=53), nullable=True),
        sa.Column("relative_ratio", sa.Float(precision=53), nullable=True),
        sa.Column("nmse", sa.Float(precision=53), nullable=True),
        sa.Column("bit_exact", sa.Boolean(), nullable=True),
        sa.Column("last_run_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "device", "backend", "op", "kernel", "kind", "build", "source_digest", name=op.f("pk_capability")
        ),
    )
