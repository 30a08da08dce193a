"""farm db: what it says and the exit codes of its words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from db.session import known_revisions

SMALL = ("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--shape", "1x32", "--backend", "twin")
HEAD = known_revisions()[-1]


@pytest.fixture
def ran(farm: Callable[..., Result]) -> Callable[..., Result]:
    """A database with one campaign in it."""
    assert farm(*SMALL, "--local", "--json").exit_code == 0
    return farm


def change(statement: str) -> None:
    with closing(sqlite3.connect(".farm/farm.db")) as connection:
        connection.execute(statement)
        connection.commit()


def test_there_is_nothing_to_upgrade(ran: Callable[..., Result]) -> None:
    found = ran("db", "upgrade")
    assert (found.exit_code, found.stdout) == (
        0,
        f"sqlite:///.farm/farm.db is at schema {HEAD}: nothing to do\n",
    )
    assert json.loads(ran("db", "upgrade", "--json").stdout) == {"schema": 1, "before": HEAD, "after": HEAD}


def test_an_empty_file_is_upgraded(farm: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    found = farm("db", "upgrade", "--db", f"sqlite:///{tmp_path}/empty.db")
    assert found.stdout.endswith(f"was upgraded from schema none to {HEAD}\n")


@pytest.mark.parametrize("word", [("upgrade",), ("check",), ("backup", "copy"), ("prune",)])
def test_without_a_database_each_says_so(farm: Callable[..., Result], word: tuple[str, ...]) -> None:
    found = farm("db", *word)
    assert (found.exit_code, found.stderr) == (
        1,
        "farm: no database at .farm/farm.db; farm submit or farm up makes one\n",
    )


@pytest.mark.parametrize("word", [("upgrade",), ("check",), ("backup", "copy"), ("prune",)])
def test_a_newer_schema_is_refused_and_left_alone(ran: Callable[..., Result], word: tuple[str, ...]) -> None:
    change("UPDATE alembic_version SET version_num = '9999'")
    found = ran("db", *word)
    assert (found.exit_code, "update the farm" in found.stderr, found.stdout) == (1, True, "")


def test_a_whole_database_is_said_to_be(ran: Callable[..., Result]) -> None:
    found = ran("db", "check")
    assert found.exit_code == 0
    assert found.stdout.startswith(
        "nothing is wrong; rows: 1 campaign, 2 job, 2 attempt, 2 evidence, 2 cells"
    )


def test_what_is_wrong_is_said_and_exits_with_3(ran: Callable[..., Result]) -> None:
    change("UPDATE capability SET positions = 7 WHERE build = 'exact'")
    found = ran("db", "check")
    assert found.exit_code == 3
    assert "1 cells differ from what their evidence counts up to" in found.stdout
    told = json.loads(ran("db", "check", "--json").stdout)
    assert (len(told["complaints"]), told["rows"]["job"]) == (2, 2)


def test_a_backup_is_a_database(ran: Callable[..., Result], tmp_path: Path) -> None:
    found = ran("db", "backup", "copy.db")
    assert (found.exit_code, found.stdout.startswith("copy.db: 0.")) == (0, True)
    assert ran("db", "check", "--db", f"sqlite:///{tmp_path}/copy.db").exit_code == 0
    again = ran("db", "backup", "copy.db")
    assert (again.exit_code, again.stderr) == (1, "farm: copy.db is there already; name another file\n")


def test_a_dry_run_changes_nothing_and_says_the_same(ran: Callable[..., Result]) -> None:
    assert ran(*SMALL, "--local", "--json").exit_code == 0
    told = "4 attempts, 4 jobs, 2 campaigns, 2 lines of evidence\n"
    dry = ran("db", "prune", "--keep-days", "0", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, f"would remove: {told}")
    before = Path(".farm/farm.db").stat().st_size
    assert ran("db", "prune", "--keep-days", "0").stdout == f"removed: {told}"
    assert ran("db", "prune", "--keep-days", "0").stdout == "removed: nothing\n"
    assert ran("db", "check").exit_code == 0
    assert Path(".farm/farm.db").stat().st_size <= before


def test_what_is_young_stays(ran: Callable[..., Result]) -> None:
    assert ran("db", "prune").stdout == "removed: nothing\n"


def test_a_wrong_word_is_a_wrong_command_line(farm: Callable[..., Result]) -> None:
    assert farm("db", "shrink").exit_code == farm("db", "prune", "--keep-days", "-1").exit_code == 2
