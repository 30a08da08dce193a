"""Every table of the farm: what was asked for, what was tried, what came back and what follows from it."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

SHA256 = String(64)
UUID = String(36)
# SQLite counts up by itself in a column of type INTEGER only.
RowId = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, *values: str) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(value) for value in values)})", name=column)


epoch = Table(
    "epoch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1: one row
    Column("epoch", BigInteger, nullable=False),
    Column("raised_us", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

cases = Table(
    "cases",
    metadata,
    Column("case_id", SHA256, primary_key=True),
    Column("inputs_key", SHA256, nullable=False),  # equal for cases that read the same bytes
    Column("case_json", Text, nullable=False),  # canonical
)

fixture = Table(
    "fixture",
    metadata,
    Column("inputs_key", SHA256, primary_key=True),
    Column("inputs_digest", SHA256, nullable=False),
)

blob = Table(
    "blob",
    metadata,
    Column("sha256", SHA256, primary_key=True),
    Column("content", LargeBinary, nullable=False),  # UTF-8 where it is a text
)

pack = Table(
    "pack",
    metadata,
    Column("address", SHA256, ForeignKey("blob.sha256"), primary_key=True),
    Column("digest", SHA256, nullable=False),  # without names and descriptions
    Column("kernels_json", Text, nullable=False),  # a list of op/name
    Column("stored_us", BigInteger, nullable=False),  # when it was submitted or imported last
)

source = Table(
    "source",
    metadata,
    Column("source_digest", SHA256, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),  # order in which a case launches them
    Column("kernel", String(128), nullable=False),  # op/name
    Column("kind", String(64), nullable=False),  # empty for none
    Column("sha256", SHA256, ForeignKey("blob.sha256"), nullable=False),
)

campaign = Table(
    "campaign",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("selection", Text, nullable=False),  # JSON, as submitted
    Column("rule", String(16), nullable=False),
    Column("priority", Integer, nullable=False),  # higher runs first
    Column("created_us", BigInteger, nullable=False),
    Column("closed_us", BigInteger),  # null while open
    Column("paused_us", BigInteger),  # null while its jobs are leased
    Column("cancelled_us", BigInteger),  # null unless nothing more of it is to run
    Column("retry_of", RowId, ForeignKey("campaign.id")),  # the campaign whose bad jobs these are
    Column("pack", String(64), nullable=False, server_default=""),  # of its kernels; empty: the farm's own
    Column("bench", Boolean, nullable=False, server_default=false()),  # whether its jobs are timed
    Column("twice", Float(53), nullable=False, server_default="0"),  # share of its cases that two boards run
)

# Most campaigns of a farm are closed; what is leased and closed looks at the others.
OPEN = "closed_us IS NULL"
Index("ix_campaign_open", campaign.c.id, sqlite_where=text(OPEN), postgresql_where=text(OPEN))

planned = Table(
    "planned",
    metadata,
    Column("campaign_id", RowId, ForeignKey("campaign.id"), primary_key=True, autoincrement=False),
    Column("case_id", SHA256, ForeignKey("cases.case_id"), primary_key=True),
    Column("position", Integer, nullable=False),  # order in the campaign; equal inputs are neighbours
    Column("repeats", Integer, nullable=False),
    Column("source_digest", SHA256, nullable=False),
    Column("inputs_digest", String(64), nullable=False),  # empty where nobody has made them yet
    Column("needs", Text, nullable=False, server_default=""),  # db.needs.Needs as JSON; empty for none
)

device = Table(
    "device",
    metadata,
    Column("slug", String(128), primary_key=True),
    Column("device_class", String(128), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("uuid", String(128), nullable=False),
    Column("fingerprint_digest", SHA256, nullable=False),  # the newest
    Column("first_seen_us", BigInteger, nullable=False),
    Column("last_seen_us", BigInteger, nullable=False),
    Column("own", Boolean, nullable=False, server_default=false()),  # joined by another road than a gateway
    Column("token_id", RowId, ForeignKey("token.id")),  # whose worker spoke for it last; null for none
)

fingerprint = Table(
    "fingerprint",
    metadata,
    Column("digest", SHA256, primary_key=True),
    Column("device", String(128), ForeignKey("device.slug"), nullable=False, index=True),
    Column("device_json", Text, nullable=False),  # canonical
    Column("first_seen_us", BigInteger, nullable=False),
)

# Where a campaign's jobs run: what is asked of a worker before any single job is looked at.
target = Table(
    "target",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("campaign_id", RowId, ForeignKey("campaign.id"), nullable=False),
    Column("backend", String(32), nullable=False),
    Column("device_class", String(128), nullable=False),
    Column(
        "needs", Text, nullable=False
    ),  # db.needs.Needs as JSON, what boards of a class differ in; or empty
    Column("made_us", BigInteger),  # with its jobs; null where an older farm made them
    UniqueConstraint("campaign_id", "backend", "device_class", "needs"),
)

job = Table(
    "job",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("campaign_id", RowId, nullable=False),
    Column("case_id", SHA256, nullable=False),
    Column("backend", String(32), nullable=False),
    Column("device_class", String(128), nullable=False),
    Column("state", String(8), nullable=False),
    Column("losses", Integer, nullable=False),  # started attempts whose worker vanished
    Column("verdict", String(8)),
    Column("evidence_id", UUID),  # of the line that decided
    Column("done_us", BigInteger),
    Column("target_id", RowId, ForeignKey("target.id")),  # never null; a column added later can't say so
    Column("avoid", String(128)),  # slug of the board that lost it last: another goes first
    Column("crashes", Integer, nullable=False, server_default="0"),  # attempts that a line says CRASH of
    ForeignKeyConstraint(["campaign_id", "case_id"], ["planned.campaign_id", "planned.case_id"]),
    UniqueConstraint("campaign_id", "case_id", "backend", "device_class"),
    _one_of("state", "waiting", "leased", "done"),
    CheckConstraint("(state = 'done') = (verdict IS NOT NULL)", name="verdict_when_done"),
)
Index("ix_job_open", job.c.campaign_id, job.c.state, job.c.verdict)
Index(
    "ix_job_waiting",
    job.c.target_id,
    job.c.id,
    sqlite_where=text("state = 'waiting'"),
    postgresql_where=text("state = 'waiting'"),
)

attempt = Table(
    "attempt",
    metadata,
    Column("attempt_id", UUID, primary_key=True),
    Column("job_id", RowId, ForeignKey("job.id"), nullable=False, index=True),
    Column("worker_id", String(64), nullable=False),
    Column("device", String(128), ForeignKey("device.slug"), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state", String(8), nullable=False),
    Column("reason", Text, nullable=False),
    Column("leased_us", BigInteger, nullable=False),
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger, index=True),
    _one_of("state", "leased", "started", "done", "returned", "MISS"),
)
LIVE = "attempt.state IN ('leased', 'started')"  # written out: a parameter would hide it from the index below
# Two live attempts at one job can't be stored, whoever asks.
Index(
    "ix_attempt_live",
    attempt.c.job_id,
    unique=True,
    sqlite_where=text(LIVE.removeprefix("attempt.")),
    postgresql_where=text(LIVE.removeprefix("attempt.")),
)

# What a cell is; the same columns, in this order, in evidence and capability.
CELL = ("device", "backend", "op", "kernel", "kind", "build", "source_digest")


def _cell_columns(primary_key: bool) -> list[Column[str]]:
    sizes = {"kind": 128, "device": 128, "kernel": 64, "source_digest": 64}
    return [
        Column(name, String(sizes.get(name, 32)), nullable=False, primary_key=primary_key) for name in CELL
    ]


evidence = Table(
    "evidence",
    metadata,
    Column("evidence_id", UUID, primary_key=True),
    Column("case_id", SHA256, ForeignKey("cases.case_id"), nullable=False, index=True),
    Column("attempt_id", UUID, ForeignKey("attempt.attempt_id"), index=True),  # null where none is known here
    *_cell_columns(primary_key=False),
    Column("device_class", String(128), nullable=False),
    Column("fingerprint_digest", SHA256, ForeignKey("fingerprint.digest"), nullable=False),
    Column("inputs_digest", String(64), nullable=False),
    Column("output_digest", String(64), nullable=False),
    Column("verdict", String(8), nullable=False),
    Column("reason", Text, nullable=False),
    Column("rule", String(16), nullable=False),
    Column("rule_verdict", String(8)),  # by a rule other than bound; never folded
    Column("judge", String(16)),  # null, as all figures, where nothing was compared
    Column("bound_ratio", Float(53)),
    Column("relative_ratio", Float(53)),
    Column("nmse", Float(53)),
    Column("nan_positions_equal", Boolean),
    Column("bit_exact", Boolean),
    Column("twin_agrees", Boolean),
    Column("positions", BigInteger, nullable=False),
    Column("bad", BigInteger, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("finished_us", BigInteger, nullable=False),
    Column("stored_us", BigInteger, nullable=False),
    Column("origin", String(16), nullable=False),
    Column("trust", String(16), nullable=False),
    Column("suspect", Boolean, nullable=False, server_default=false()),  # its board was set aside for it
    Column("folded", Boolean, nullable=False),  # false for late lines and for attempts that were tried again
    Column("copies", Integer, nullable=False),  # how often this line arrived
    Column(
        "build_digest", String(64), nullable=False, server_default=""
    ),  # of what was compiled; empty: unknown
    Column("notes", String(64), nullable=False, server_default=""),  # spills, one-block; joined by commas
    Column("line_json", Text, nullable=False),  # the whole line, canonical
    ForeignKeyConstraint(["device"], ["device.slug"]),
)
Index(
    "ix_evidence_cell",
    *(evidence.c[name] for name in ("source_digest", "device", "backend", "case_id", "verdict")),
    evidence.c.finished_us,
    evidence.c.evidence_id,
)

# What lines that were timed said: no part of what is pruned, since a series is worth what it is long.
benchmark = Table(
    "benchmark",
    metadata,
    Column("evidence_id", UUID, primary_key=True),  # of a line that may have been pruned since
    Column("case_id", SHA256, nullable=False, index=True),
    *_cell_columns(primary_key=False),
    Column("device_class", String(128), nullable=False),
    Column("shape", Text, nullable=False),
    Column("build_digest", SHA256, nullable=False),  # of the code that was timed; empty: unknown
    Column("finished_us", BigInteger, nullable=False),
    Column("refused", Text, nullable=False),  # why it proves nothing; empty where it does
    Column("median_us", Float(53), nullable=False),  # of a pass
    Column("gb_per_s", Float(53), nullable=False),
    Column("share_of_least", Float(53)),  # of the least limit's speed; null where no limit is known
    Column("benchmark_json", Text, nullable=False),  # kernels.benchmark.Benchmark, canonical
)

capability = Table(
    "capability",
    metadata,
    *_cell_columns(primary_key=True),
    Column("device_class", String(128), nullable=False),
    Column("verdict", String(8), nullable=False),
    Column("reason", Text, nullable=False),
    Column("rungs", String(64), nullable=False),  # joined by commas
    Column("flags", String(64), nullable=False),  # joined by commas; stale is computed when reading
    Column("cases", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("positions", BigInteger, nullable=False),
    Column("bound_ratio", Float(53)),
    Column("relative_ratio", Float(53)),
    Column("nmse", Float(53)),
    Column("bit_exact", Boolean),
    Column("last_run_us", BigInteger, nullable=False),
    Column("build_digest", String(64), nullable=False, server_default=""),  # that all its cases share
    Column("trust", String(16), nullable=False, server_default="own"),  # least over its cases
)

# Cells of which two boards of a class ran the same case and came to the same; once for each of the two.
agreement = Table(
    "agreement",
    metadata,
    *_cell_columns(primary_key=True),
    Column("other", String(128), primary_key=True),  # slug of the board that agrees
    Column("verdict", String(8), primary_key=True),  # of that case
    Column("agreed_us", BigInteger, nullable=False),
)

sabotage = Table(
    "sabotage",
    metadata,
    Column("kernel", String(128), primary_key=True),  # op/name
    Column("kind", String(64), primary_key=True),  # the cell's label
    Column("source_digest", SHA256, primary_key=True),
    Column("ran_us", BigInteger, nullable=False),
    Column("cases", Integer, nullable=False),
    Column("mutants", Integer, nullable=False),
    Column("compiled", Integer, nullable=False),
    Column("killed_json", Text, nullable=False),  # pairs of rule and count
    Column("by_relative", Integer, nullable=False),
    Column("by_nmse", Integer, nullable=False),
    Column("same", Integer, nullable=False),  # mutants whose code is the right kernel's
    Column("equivalents", Integer, nullable=False),
    Column("survivors_json", Text, nullable=False),  # names of mutants
)

token = Table(
    "token",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("sha256", SHA256, nullable=False, unique=True),  # of the secret, which is kept nowhere
    Column("devices", String(128), nullable=False),  # glob: whose evidence it may bring
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("revoked_us", BigInteger),
    Column("used_us", BigInteger),
)

exam = Table(
    "exam",
    metadata,
    Column("device", String(128), ForeignKey("device.slug"), primary_key=True),
    Column("examined_us", BigInteger),  # the last one that it passed; null for none
    Column("aside_us", BigInteger),  # null while it may work
    Column("reason", Text, nullable=False),  # why it is set aside
)

bug = Table(
    "bug",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("device_class", String(128), nullable=False),
    Column("backend", String(32), nullable=False),
    Column("op", String(32), nullable=False),
    Column("kernel", String(64), nullable=False),
    Column("kind", String(128), nullable=False),
    Column("build", String(32), nullable=False),  # empty: every build
    Column("url", String(500), nullable=False),
    Column("linked_us", BigInteger, nullable=False),
    UniqueConstraint("device_class", "backend", "op", "kernel", "kind", "build", "url"),
)
