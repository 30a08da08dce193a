"""The audit finds nothing in a sound database, and every planted violation by the rule that is about it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from db.session import open_database
from kernels import codec
from tests.chaos.audit import RULES, audit, main
from tests.chaos.clockwork import campaign_of, work
from workers.sim.plan import SHARE_OF, Shares, SimPlan

PLAN = SimPlan(5, Shares(crash=0, hang=0, wrong=20_000, slow=0, lie=SHARE_OF, flaky=20_000))
SLUGS = ("sim-large-0", "sim-large-1", "sim-small-0")
SOME = "(SELECT min({0}) FROM {1} WHERE {2})"
PASSED = "(SELECT min(id) FROM job WHERE verdict = 'PASS')"
OF_PASSED = f"(SELECT evidence_id FROM job WHERE id = {PASSED})"
ATTEMPT = f"(SELECT attempt_id FROM evidence WHERE evidence_id = {OF_PASSED})"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which three simulated boards have done a campaign of two classes."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        (folder / "plan.json").write_text(codec.canonical(PLAN))
        patch.setenv("FARM_SIM", str(folder / "plan.json"))
        with closing(open_database(f"sqlite:///{folder}/farm.db")) as database:
            campaign_of(database, seeds=4)
            work(database, folder, PLAN, SLUGS)
    return folder / "farm.db"


@pytest.fixture
def url(sound: Path, tmp_path: Path) -> str:
    """A copy to be spoiled."""
    for path in sound.parent.glob("farm.db*"):
        shutil.copy(path, tmp_path)
    return f"sqlite:///{tmp_path}/farm.db"


def change(*statements: str) -> Callable[[sqlite3.Connection], None]:
    def plant(s: sqlite3.Connection) -> None:
        for statement in statements:
            assert s.execute(statement).rowcount > 0, statement

    return plant


def fold_again(with_attempt: bool) -> Callable[[sqlite3.Connection], None]:
    """Another line that is folded, of the same job: of another attempt, or of the same."""

    def plant(s: sqlite3.Connection) -> None:
        if with_attempt:
            (row,) = s.execute(f"SELECT * FROM attempt WHERE attempt_id = {ATTEMPT}")
            copy(s, "attempt", row | {"attempt_id": "another"})
        (row,) = s.execute(f"SELECT * FROM evidence WHERE evidence_id = {OF_PASSED}")
        more = {"attempt_id": "another"} if with_attempt else {}
        copy(s, "evidence", row | {"evidence_id": "another"} | more)

    return plant


def copy(s: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    s.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(row.values()))


PLANTS: dict[str, Callable[[sqlite3.Connection], None]] = {
    "campaigns are open": change("UPDATE campaign SET closed_us = NULL"),
    "jobs have no verdict": change(f"UPDATE job SET state = 'waiting', verdict = NULL WHERE id = {PASSED}"),
    "cases of a campaign": change(f"DELETE FROM job WHERE id = {PASSED}"),
    "attempts are still held": change(
        f"UPDATE attempt SET state = 'started', ended_us = NULL WHERE attempt_id = {ATTEMPT}"
    ),
    "verdicts have no line": change(f"UPDATE job SET evidence_id = 'nothing' WHERE id = {PASSED}"),
    "lines decided several": change(f"UPDATE job SET evidence_id = {OF_PASSED} WHERE verdict = 'PASS'"),
    "jobs were folded twice": fold_again(with_attempt=True),
    "attempts were folded twice": fold_again(with_attempt=False),
    "verdicts rest on a line": change(f"UPDATE evidence SET folded = 0 WHERE evidence_id = {OF_PASSED}"),
    "cells count other": change("UPDATE capability SET cases = cases + 1"),
    "attempts ended well": change(f"DELETE FROM evidence WHERE evidence_id = {OF_PASSED}"),
    "kernels are blamed": change(f"UPDATE evidence SET verdict = 'FAIL' WHERE evidence_id = {OF_PASSED}"),
    "lines of the coordinator": change(
        f"UPDATE evidence SET origin = 'coordinator' WHERE evidence_id = {OF_PASSED}"
    ),
    "workers report another": change(f"UPDATE evidence SET verdict = 'SKIP' WHERE evidence_id = {OF_PASSED}"),
    "jobs end otherwise": change("UPDATE job SET verdict = 'PASS' WHERE verdict = 'FAIL'"),
    "crashes were believed": change(f"UPDATE job SET verdict = 'CRASH' WHERE id = {PASSED}"),
    "jobs are LOST": change(f"UPDATE job SET verdict = 'LOST' WHERE id = {PASSED}"),
}
# What is no row of the farm's is planted in what the audit is told.
LARGE = tuple(slug for slug in SLUGS if slug.startswith("sim-large-"))  # one of them may have had no turn
TOLD: dict[str, dict[str, Any]] = {
    "boards that lie": {"plan": replace(PLAN, liars=LARGE)},
    "foreign bits": {"plan": replace(PLAN, liars=LARGE)},
    "boards that cheat": {"plan": replace(PLAN, cheats=("sim-small-0",))},
    "processes that wrote": {"writers": 1},
    "processes are left": {"orphans": ("python -m workers pull",)},
}


def test_a_sound_database_breaks_no_rule(url: str) -> None:
    assert audit(url, PLAN) == []
    with sqlite3.connect(url.removeprefix("sqlite:///")) as s:
        verdicts = dict(s.execute("SELECT verdict, count(*) FROM job GROUP BY verdict").fetchall())
    s.close()
    assert verdicts["PASS"] > 20
    assert verdicts["FAIL"] > 10


def test_every_rule_has_a_violation_that_is_planted() -> None:
    for start in (*PLANTS, *TOLD):
        assert len([rule for rule in RULES if rule.says.startswith(start)]) == 1, start
    assert len(RULES) == len(PLANTS) + len(TOLD)


@pytest.mark.parametrize("start", PLANTS)
def test_a_planted_violation_trips_its_rule(start: str, url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as s, s:
        s.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
        PLANTS[start](s)
    assert [line for line in audit(url, PLAN) if line.partition(" ")[2].startswith(start)]


@pytest.mark.parametrize("start", TOLD)
def test_what_the_audit_is_told_trips_its_rule(start: str, url: str) -> None:
    broken = audit(url, **({"plan": PLAN} | TOLD[start]))
    assert [line for line in broken if line.partition(" ")[2].startswith(start)]


def test_another_plan_is_not_what_was_run(url: str) -> None:
    assert audit(url, replace(PLAN, seed=6))


def test_the_script_says_what_is_broken(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(codec.canonical(PLAN))
    assert main([url, str(tmp_path / "plan.json")]) == 0
    (tmp_path / "plan.json").write_text(codec.canonical(replace(PLAN, cheats=("sim-small-0",))))
    assert main([url, str(tmp_path / "plan.json")]) == 3
    assert "boards that cheat in exams got jobs" in capsys.readouterr().out
    assert main([]) == 2
