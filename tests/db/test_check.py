"""The check of a whole database: silent where all is well, not where a row was changed behind its back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import check, evidence
from db.check import RULES
from db.job import Target
from kernels.evidence import Rule, Verdict
from tests.db.making import HOST, Farm, answer, case, line
from tests.db.test_migrations import filled

DONE = "(SELECT min(id) FROM job WHERE verdict = 'PASS')"
HELD = "(SELECT min(job_id) FROM attempt WHERE state = 'leased')"
WRONG = {  # what is said, and what brings it about; every rule has one
    "jobs are held by several attempts": "DROP INDEX ix_attempt_live; UPDATE attempt SET state = 'started'"
    f" WHERE state = 'MISS'; UPDATE attempt SET job_id = {HELD} WHERE state = 'started'",
    "leased jobs are held by no attempt": "UPDATE attempt SET state = 'returned' WHERE state = 'leased'",
    "waiting jobs are held": f"UPDATE job SET state = 'waiting' WHERE id = {HELD}",
    "have no target": "UPDATE job SET target_id = (SELECT max(id) FROM target)",
    "lines are of no attempt": "DELETE FROM attempt WHERE state = 'done'",
    "attempts are at no job": f"DELETE FROM job WHERE id = {DONE}",
    "by a line that isn't here": f"UPDATE job SET evidence_id = 'nothing' WHERE id = {DONE}",
    "another verdict than the line": f"UPDATE job SET verdict = 'SKIP' WHERE id = {DONE}",
    "lines decided several jobs": "UPDATE job SET evidence_id = (SELECT min(evidence_id) FROM evidence)"
    " WHERE state = 'done'",
    "verdict without a line": f"UPDATE job SET evidence_id = NULL WHERE id = {DONE}",
    "closed over jobs without": "UPDATE campaign SET closed_us = 1",
    "coordinator blame a kernel": "UPDATE evidence SET verdict = 'FAIL' WHERE origin = 'coordinator'",
    "cells have no evidence": "UPDATE capability SET device = 'nowhere'",
    "counts up to": "UPDATE capability SET positions = positions + 1",
    "differ from a fold": "UPDATE capability SET reason = 'invented'",
    "blobs aren't what they were": "UPDATE blob SET content = CAST('other' AS {bytes})",
}  # fmt: skip


@pytest.fixture
def url(empty_url: str) -> str:
    """A schema of its own for every test: some of these take an index away."""
    return empty_url


@pytest.fixture
def full(farm: Farm) -> Farm:
    """Rows of every sort."""
    filled(farm)
    with farm.database.writing() as s:
        evidence.import_lines(s, [line(case(rows), verdict) for rows, verdict in enumerate(Verdict, 60)], 31)
    return farm


def complaints(farm: Farm) -> tuple[str, ...]:
    with farm.database.reading() as s:
        return check.check(s).complaints


def break_it(farm: Farm, statements: str) -> None:
    """Changes rows without the references being looked at."""
    sqlite = farm.database.is_sqlite
    connection = farm.database.engine.raw_connection()
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=OFF" if sqlite else "SET session_replication_role = replica")
    for statement in statements.replace("{bytes}", "BLOB" if sqlite else "bytea").split("; "):
        cursor.execute(statement)
    connection.commit()
    connection.invalidate()


def test_nothing_is_said_where_all_is_well(full: Farm) -> None:
    assert complaints(full) == ()
    with full.database.reading() as s:
        counts = dict(check.check(s).counts)
    assert (counts["job"], counts["attempt"], counts["evidence"]) == (12, 4, 3 + 2 + len(Verdict))
    assert all(counts.values())


def test_nothing_is_said_of_an_empty_database(farm: Farm) -> None:
    assert complaints(farm) == ()


@pytest.mark.parametrize("said", WRONG)
def test_a_change_behind_its_back_is_found(full: Farm, said: str) -> None:
    break_it(full, WRONG[said])
    assert any(said in found for found in complaints(full)), complaints(full)


def test_every_rule_has_a_change_that_breaks_it() -> None:
    assert len(RULES) + 2 == len(WRONG)  # blobs and the fold are no rows of RULES
    for rule in RULES:
        assert any(said in f"1 {rule.says}" for said in WRONG), rule.says


def test_a_lost_reference_is_found_on_sqlite(full: Farm) -> None:
    if full.database.is_sqlite:
        break_it(full, "DELETE FROM fingerprint")
        assert any("references lead nowhere, as from evidence to fingerprint" in c for c in complaints(full))


def test_a_campaigns_own_rule_decides_its_job(farm: Farm) -> None:
    farm.submit([case(1)], [HOST, Target("twin", HOST.device_class)])
    (leased,) = farm.lease()
    farm.complete(replace(answer(leased), rule=Rule.EXACT, rule_verdict=Verdict.FAIL))
    assert complaints(farm) == ()
