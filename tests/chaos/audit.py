"""What must be true of a database when a simulated campaign is over, in plain SQL and by the plan alone.

python -m tests.chaos.audit URL PLAN.json        # exit code 3 and a line for every rule that is broken

Nothing of the farm's own fold, queue or checks takes part: the plan says again what was to happen to every
attempt (workers.sim.plan), that goes into a table of its own, and every rule is a query that finds nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from kernels import codec
from workers.sim.plan import OF_JOBS, Fault, SimPlan

PER_WRITER = 20  # lines of each of the processes that write beside the farm
KERNELS_FAULT = "('FAIL', 'CRASH', 'TIMEOUT', 'REJECT')"
BUDGET = 3  # started attempts that a job may lose before it is LOST
LINES = (
    "(SELECT evidence.*, attempt.job_id, predicted.fault, predicted.verdict AS planned FROM evidence"
    " JOIN attempt ON attempt.attempt_id = evidence.attempt_id"
    " JOIN predicted ON predicted.attempt_id = evidence.attempt_id) AS line"
)


@dataclass(frozen=True)
class Rule:
    """A query whose rows are violations; its first column names an example."""

    says: str
    sql: str


RULES = (
    Rule("campaigns are open", "SELECT id FROM campaign WHERE closed_us IS NULL"),
    Rule(
        "jobs have no verdict, or none that is final",
        "SELECT id FROM job WHERE state <> 'done' OR verdict IS NULL OR verdict = 'MISS'",
    ),
    Rule(
        "cases of a campaign have several jobs for one class, or none",
        "SELECT campaign_id FROM (SELECT planned.campaign_id, planned.case_id, one.device_class,"
        " (SELECT count(*) FROM job WHERE job.campaign_id = planned.campaign_id"
        "  AND job.case_id = planned.case_id AND job.device_class = one.device_class) AS jobs"
        " FROM planned JOIN (SELECT DISTINCT campaign_id, device_class FROM job) AS one"
        " ON one.campaign_id = planned.campaign_id) AS counted WHERE jobs <> 1",
    ),
    Rule(
        "attempts are still held",
        "SELECT attempt_id FROM attempt WHERE state IN ('leased', 'started') OR ended_us IS NULL",
    ),
    Rule(
        "verdicts have no line that says so",
        "SELECT job.id FROM job LEFT JOIN evidence ON evidence.evidence_id = job.evidence_id"
        " WHERE evidence.evidence_id IS NULL OR evidence.verdict <> job.verdict"
        " OR evidence.case_id <> job.case_id OR evidence.device_class <> job.device_class",
    ),
    Rule(
        "lines decided several jobs",
        "SELECT evidence_id FROM job GROUP BY evidence_id HAVING count(*) > 1",
    ),
    Rule(
        "jobs were folded twice for one board",
        f"SELECT job_id FROM {LINES} WHERE folded AND NOT suspect AND line.verdict <> 'CRASH'"
        " GROUP BY job_id, device HAVING count(*) > 1",
    ),
    Rule(
        "attempts were folded twice",
        "SELECT attempt_id FROM evidence WHERE folded AND attempt_id IS NOT NULL"
        " GROUP BY attempt_id HAVING count(*) > 1",
    ),
    Rule(
        "verdicts rest on a line that isn't folded",
        "SELECT job.id FROM job JOIN evidence ON evidence.evidence_id = job.evidence_id WHERE NOT folded",
    ),
    Rule(
        "cells count other cases than their lines",
        "SELECT capability.device FROM capability LEFT JOIN (SELECT device, backend, op, kernel, kind, build,"
        " source_digest, count(DISTINCT case_id) AS cases FROM evidence WHERE folded"
        " GROUP BY device, backend, op, kernel, kind, build, source_digest) AS mine"
        " ON mine.device = capability.device AND mine.backend = capability.backend"
        " AND mine.op = capability.op AND mine.kernel = capability.kernel AND mine.kind = capability.kind"
        " AND mine.build = capability.build AND mine.source_digest = capability.source_digest"
        " WHERE mine.cases IS NULL OR mine.cases <> capability.cases + capability.skipped",
    ),
    Rule(
        "attempts ended well and left no line",
        "SELECT attempt.attempt_id FROM attempt LEFT JOIN evidence"
        " ON evidence.attempt_id = attempt.attempt_id"
        " WHERE attempt.state = 'done' AND evidence.evidence_id IS NULL",
    ),
    Rule(
        "kernels are blamed for what the plan doesn't have them do",
        f"SELECT evidence_id FROM {LINES} WHERE line.verdict IN {KERNELS_FAULT} AND line.verdict <> planned",
    ),
    Rule(
        "lines of the coordinator speak of a kernel",
        "SELECT evidence_id FROM evidence WHERE origin = 'coordinator' AND verdict <> 'LOST'",
    ),
    Rule(
        "workers report another verdict than the plan's",
        f"SELECT evidence_id FROM {LINES} WHERE origin <> 'coordinator' AND line.verdict <> planned",
    ),
    Rule(
        "jobs end otherwise than their own fault wants",
        "SELECT job.id FROM job JOIN wanted ON wanted.job_id = job.id"
        " WHERE job.verdict <> wanted.verdict AND job.verdict <> 'LOST'",
    ),
    Rule(
        "crashes were believed that nobody repeated",
        "SELECT job.id FROM job WHERE verdict = 'CRASH' AND (SELECT count(*) FROM evidence JOIN attempt"
        " ON attempt.attempt_id = evidence.attempt_id"
        " WHERE attempt.job_id = job.id AND evidence.verdict = 'CRASH') < 2",
    ),
    Rule(
        "jobs are LOST with something left of their budget",
        "SELECT job.id FROM job WHERE verdict = 'LOST' AND (SELECT count(*) FROM attempt"
        " WHERE attempt.job_id = job.id AND state = 'MISS' AND started_us IS NOT NULL)"
        f" < {BUDGET}",
    ),
    Rule(
        "boards that lie and were seen to still work",
        f"SELECT line.device FROM {LINES} LEFT JOIN exam ON exam.device = line.device"
        " WHERE fault = 'lie' AND build = 'exact' AND exam.aside_us IS NULL AND EXISTS (SELECT 1"
        "  FROM evidence AS other WHERE other.case_id = line.case_id AND other.verdict = 'PASS'"
        "  AND other.device <> line.device AND other.backend = 'sim')",
    ),
    Rule(
        "foreign bits count beside other boards'",
        f"SELECT evidence_id FROM {LINES} WHERE fault = 'lie' AND build = 'exact' AND folded AND NOT suspect"
        " AND EXISTS (SELECT 1 FROM evidence AS other WHERE other.case_id = line.case_id"
        "  AND other.verdict = 'PASS' AND other.device <> line.device AND other.backend = 'sim')",
    ),
    Rule(
        "boards that cheat in exams got jobs",
        "SELECT attempt.attempt_id FROM attempt JOIN cheat ON cheat.device = attempt.device",
    ),
    Rule(
        "processes that wrote beside the farm lack lines, or have more than they wrote",
        "SELECT number FROM writer LEFT JOIN evidence ON evidence.attempt_id IS NULL"
        " AND evidence.evidence_id LIKE CAST(number AS VARCHAR(8)) || '-%' AND evidence.backend <> 'sim'"
        f" GROUP BY number HAVING count(evidence_id) <> {PER_WRITER}",
    ),
    Rule("processes are left", "SELECT command FROM orphan"),
)  # fmt: skip
TABLES = {
    "predicted": "attempt_id VARCHAR(36) PRIMARY KEY, fault VARCHAR(8), verdict VARCHAR(8)",
    "wanted": "job_id BIGINT PRIMARY KEY, verdict VARCHAR(8)",
    "cheat": "device VARCHAR(128)",
    "writer": "number INTEGER",
    "orphan": "command TEXT",
}


def audit(url: str, plan: SimPlan, orphans: Sequence[str] = (), writers: int = 0) -> list[str]:
    """Every rule that is broken, with how often and an example."""
    engine = sa.create_engine(sa.make_url(url).set(drivername=driver(url)))
    with engine.connect() as s:
        for name, columns in TABLES.items():
            s.exec_driver_sql(f"CREATE TEMPORARY TABLE {name} ({columns})")
        _predict(s, plan)
        _fill(s, "cheat", [{"device": slug} for slug in plan.cheats])
        _fill(s, "writer", [{"number": number} for number in range(writers)])
        _fill(s, "orphan", [{"command": command} for command in orphans])
        found = [(rule, s.exec_driver_sql(worded(rule.sql, s)).all()) for rule in RULES]
        s.rollback()
    engine.dispose()
    return [f"{len(rows):,} {rule.says}, as {rows[0][0]}" for rule, rows in found if rows]


def worded(sql: str, s: sa.Connection) -> str:
    """A query as the driver takes it: psycopg reads a per cent sign as a place for a value."""
    return sql if s.dialect.name == "sqlite" else sql.replace("%", "%%")


def driver(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgresql+psycopg"


def figures(url: str) -> dict[str, int]:
    """What a run came to."""
    queries = {
        "jobs": "SELECT count(*) FROM job",
        "attempts": "SELECT count(*) FROM attempt",
        "attempts that lost their worker": "SELECT count(*) FROM attempt WHERE state = 'MISS'",
        "of them started": "SELECT count(*) FROM attempt WHERE state = 'MISS' AND started_us IS NOT NULL",
        "given back": "SELECT count(*) FROM attempt WHERE state = 'returned'",
        "lines": "SELECT count(*) FROM evidence WHERE attempt_id IS NOT NULL",
        "late lines": "SELECT count(*) FROM evidence WHERE attempt_id IS NOT NULL AND NOT folded"
        " AND verdict NOT IN ('CRASH', 'LOST')",
        "lines that came again": "SELECT coalesce(sum(copies - 1), 0) FROM evidence"
        " WHERE attempt_id IS NOT NULL",
        "suspect lines": "SELECT count(*) FROM evidence WHERE suspect",
        "epochs": "SELECT epoch FROM epoch",
    }
    engine = sa.create_engine(sa.make_url(url).set(drivername=driver(url)))
    with engine.connect() as s:
        found = {name: int(s.exec_driver_sql(sql).scalar() or 0) for name, sql in queries.items()}
        verdicts = s.exec_driver_sql("SELECT verdict, count(*) FROM job GROUP BY verdict ORDER BY 1").all()
    engine.dispose()
    return found | {f"{verdict}": int(count) for verdict, count in verdicts}


def _predict(s: sa.Connection, plan: SimPlan) -> None:
    """What the plan says of every attempt, and of every job that has a fault of its own."""
    query = "SELECT attempt_id, device, case_id, job.id FROM attempt JOIN job ON job.id = attempt.job_id"
    attempts, jobs = [], {}
    for attempt_id, slug, case_id, job_id in s.exec_driver_sql(query).all():
        fault = plan.fault(slug, case_id, attempt_id)
        verdict = fault.verdict.value
        attempts.append({"attempt_id": attempt_id, "fault": fault.value, "verdict": verdict})
        if fault in OF_JOBS:
            jobs[job_id] = {"job_id": job_id, "verdict": verdict}
        elif slug not in plan.liars and plan.shares.flaky == 0:
            jobs[job_id] = {"job_id": job_id, "verdict": Fault.NONE.verdict.value}
    _fill(s, "predicted", attempts)
    _fill(s, "wanted", list(jobs.values()))


def _fill(s: sa.Connection, table: str, rows: Sequence[dict[str, object]]) -> None:
    if rows:
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        s.execute(sa.text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"), list(rows))


def main(words: Sequence[str]) -> int:
    if len(words) != 2:
        print("usage: python -m tests.chaos.audit URL PLAN.json", file=sys.stderr)
        return 2
    plan = codec.decode(SimPlan, json.loads(Path(words[1]).read_text(encoding="utf8")))
    broken = audit(words[0], plan)
    for name, count in figures(words[0]).items():
        print(f"{name}: {count:,}")
    for line in broken:
        print(line)
    return 3 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
