"""Opening: made from nothing, upgraded, or refused in one line."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from db import session, tables
from db.session import Database, known_revisions, open_database, open_existing, shown
from kernels.errors import FarmError, UsageError
from tests.db.making import open_and_count


def one_line(error: pytest.ExceptionInfo[FarmError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def stop(url: str, statement: str) -> None:
    """Changes a database behind the farm's back."""
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def test_open_makes_folder_and_schema(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/new/farm.db")
    with database.reading() as s:
        assert s.exec_driver_sql("SELECT count(*) FROM capability").scalar_one() == 0
    database.close()


def test_open_existing_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="farm submit or farm up makes one"):
        open_existing(f"sqlite:///{tmp_path}/farm.db")
    assert not list(tmp_path.iterdir())


def test_open_existing_upgrades_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "farm.db").touch()
    open_existing(f"sqlite:///{tmp_path}/farm.db").close()
    open_existing(f"sqlite:///{tmp_path}/farm.db").close()


def test_sqlite_is_durable_and_checks_references(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/farm.db")
    found = []
    with database.reading() as s:
        for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
            found.append(s.exec_driver_sql(f"PRAGMA {pragma}").scalar_one())
    database.close()
    assert found == ["wal", 2, 1, 5000]


def test_migrated_schema_equals_the_tables(database: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with database.reading() as s:
        context = MigrationContext.configure(s, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []


def test_migrated_checks_equal_the_tables(database: Database) -> None:
    with database.reading() as s:
        inspector = sa.inspect(s)
        for table in tables.metadata.tables.values():
            found = {check["name"] for check in inspector.get_check_constraints(table.name)}
            assert found == {str(c.name) for c in table.constraints if isinstance(c, sa.CheckConstraint)}


def test_head_is_alembics_head() -> None:
    from importlib.resources import files

    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(files("db") / "migrations"))
    assert script.get_heads() == [known_revisions()[-1]]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/farm.db"
    open_database(url).close()
    stop(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(FarmError, match="schema 9999, this farm knows") as error:
        open_existing(url)
    assert "update the farm" in one_line(error)


def test_a_schema_without_its_number_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/farm.db"
    open_database(url).close()
    stop(url, "DELETE FROM alembic_version")
    with pytest.raises(FarmError, match="schema without a number, this farm knows") as error:
        open_existing(url)
    one_line(error)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    stop(url, "CREATE TABLE recipe (id INTEGER)")
    with pytest.raises(FarmError, match="no farm's database: its tables are recipe") as error:
        open_database(url)
    one_line(error)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    path.write_bytes(b"not a database at all, but long enough to have a header" * 40)
    with pytest.raises(FarmError, match="file is not a database") as error:
        open_existing(f"sqlite:///{path}")
    assert one_line(error).startswith(f"sqlite:///{path}")


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    open_database(f"sqlite:///{path}").close()
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + b"\xff" * (len(whole) - 5000))
    with pytest.raises(FarmError, match="malformed") as error:
        open_existing(f"sqlite:///{path}")
    one_line(error)


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="unable to open database file") as error:
        open_database(f"sqlite:///{tmp_path}")
    one_line(error)


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(FarmError, match="can't make the folder"):
        open_database(f"sqlite:///{tmp_path}/taken/farm.db")


@pytest.mark.parametrize("url", ["farm.db", "mysql://host/farm", "sqlite://", "sqlite:///:memory:"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_database(url)


def test_an_address_is_shown_without_its_password() -> None:
    assert shown("postgresql://user:secret@host/farm") == "postgresql://user:***@host/farm"


def test_a_password_is_not_in_an_error() -> None:
    with pytest.raises(FarmError) as error:
        open_database("postgresql://user:secret@127.0.0.1:1/farm?connect_timeout=1")
    assert "secret" not in one_line(error)


def test_writing_rolls_back_when_its_body_fails(database: Database) -> None:
    def fail() -> None:
        with database.writing() as s:
            s.execute(sa.insert(tables.fixture).values(inputs_key="k", inputs_digest="d"))
            raise FarmError("stop")

    with pytest.raises(FarmError, match="stop"):
        fail()
    with database.reading() as s:
        assert s.execute(sa.select(tables.fixture)).all() == []


def test_our_own_mistakes_stay_what_they_are(database: Database) -> None:
    with pytest.raises(IntegrityError), database.writing() as s:
        s.execute(sa.insert(tables.fixture).values(inputs_key="k", inputs_digest=None))


def test_a_locked_database_is_said_to_be_locked(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/farm.db")
    with database.writing():
        hurried = replace(open_database(f"sqlite:///{tmp_path}/farm.db"), give_up_s=0)
        with hurried.reading() as s:  # readers go on; the pool gives this connection to the writer below
            s.exec_driver_sql("PRAGMA busy_timeout=0")
        with pytest.raises(FarmError, match="is locked") as error, hurried.writing():
            pass
        one_line(error)
        hurried.close()
    with database.writing():  # and the lock is free again
        pass
    database.close()


def test_opening_waits_for_who_holds_the_new_file(tmp_path: Path) -> None:
    holder = sqlite3.connect(tmp_path / "farm.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, holder.rollback)
    release.start()
    open_database(f"sqlite:///{tmp_path}/farm.db").close()
    release.join()
    holder.close()


def test_a_reader_sees_one_state(database: Database) -> None:
    query = sa.select(sa.func.count()).select_from(tables.fixture)
    with database.reading() as s:
        before = s.execute(query).scalar_one()
        with database.writing() as w:
            w.execute(sa.insert(tables.fixture).values(inputs_key="k", inputs_digest="d"))
        assert s.execute(query).scalar_one() == before
    with database.reading() as s:
        assert s.execute(query).scalar_one() == before + 1


def test_processes_that_open_a_new_database_at_once_agree(empty_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        counts = pool.map(open_and_count, [empty_url] * 3, chunksize=1)
    assert sorted(counts) == [1, 2, 3]


@pytest.mark.parametrize("left_open", [False, True])
def test_a_file_that_cannot_be_written_is_read(tmp_path: Path, left_open: bool) -> None:
    address = sa.make_url(f"sqlite:///{tmp_path}/farm.db")
    writer = session.open_database(str(address))
    with writer.writing() as w:
        w.execute(sa.insert(tables.fixture).values(inputs_key="k", inputs_digest="d"))
    if not left_open:
        writer.close()
    reader = session._opened(address, read_only=True)
    with reader.reading() as s:
        assert s.execute(sa.select(tables.fixture.c.inputs_digest)).scalars().all() == ["d"]
    with pytest.raises(FarmError, match="readonly database"), reader.writing() as w:
        w.execute(sa.delete(tables.fixture))
    reader.close()
    writer.close()


def test_a_file_or_folder_without_permission_to_write_is_opened_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/farm.db"
    open_database(url).close()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    database = session.open_existing(url)
    with pytest.raises(FarmError, match="readonly database"), database.writing() as w:
        w.execute(sa.delete(tables.fixture))
    database.close()
