"""What a person can do something about is one line; a password is in none."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
import sqlalchemy as sa

from db import campaign, evidence
from db.bulk import insert_rows
from db.complaint import DatabaseTrouble
from db.session import Database, Session, open_database, shown
from db.tables import fixture
from kernels.errors import FarmError, UsageError
from tests.db.making import Farm, case, line
from tests.postgres import Postgres

SECRET = "s3cret-of-mine"


def refusal(url: sa.URL | str, caplog: pytest.LogCaptureFixture) -> str:
    """The line that opening gives; no password in it, in its traceback or in a log."""
    text = url if isinstance(url, str) else url.render_as_string(hide_password=False)
    with caplog.at_level(logging.DEBUG), pytest.raises(FarmError) as error:
        open_database(text)
    told = "".join(traceback.format_exception(error.value)) + caplog.text
    assert SECRET not in told + str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def guarded(postgres: Postgres) -> sa.URL:
    """The server's address for a user who must give a password and may make no table."""
    if not postgres.is_ours:
        pytest.skip("who may come in to another's server is not ours to change")
    return postgres.guarded("clerk", "right")


@pytest.mark.postgres
def test_a_wrong_password_is_said_and_not_shown(guarded: sa.URL, caplog) -> None:
    told = refusal(guarded.set(password=SECRET), caplog)
    assert 'password authentication failed for user "clerk"' in told
    told = refusal(guarded.update_query_dict({"password": SECRET}), caplog)
    assert 'password authentication failed for user "clerk"' in told


@pytest.mark.postgres
def test_a_missing_right_is_said_with_its_remedy(guarded: sa.URL, caplog) -> None:
    assert "permission denied for schema public; its owner can GRANT" in refusal(
        guarded.set(password="right"), caplog
    )


@pytest.mark.postgres
def test_an_absent_database_is_said(postgres: Postgres, caplog) -> None:
    url = sa.make_url(postgres.url).set(database="absent", password=SECRET)
    assert 'database "absent" does not exist' in refusal(url, caplog)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://user:{}@127.0.0.1:1/farm?connect_timeout=1", "Connection refused"),
        ("postgresql://user@127.0.0.1:1/farm?password={}", "Connection refused"),
        ("postgresql://user:{}@nobody.invalid/farm", "failed to resolve host"),
        ("postgresql://user:{}@127.0.0.1:1/farm?frob=1", "invalid connection option"),
        ("postgresql://user:{}@host:port/farm", "that is no database URL"),
        ("mysql://user:{}@host/farm", "no database of type 'mysql'"),
        (
            "postgresql://user:half@{}@host/farm",
            "has an @ in its host or name; in user and password write %40",
        ),
        ("postgresql://user@host/farm?sslpassword={}", "put it into a service file and write service=NAME"),
        ("postgresql://us/er:{}@host/farm", "has an @ in its host or name; in user and password write %40"),
    ],
)
def test_an_address_that_leads_nowhere_is_said_without_its_password(address: str, told: str, caplog) -> None:
    assert told in refusal(address.format(SECRET), caplog)


def test_a_password_among_the_options_is_hidden() -> None:
    assert shown(f"postgresql://u@h/d?password={SECRET}&a=1") == "postgresql://u:***@h/d?a=1"


def test_a_wrong_address_is_a_wrong_word(caplog) -> None:
    with pytest.raises(UsageError):
        open_database("postgresql://user@host:port/farm")


def read_while_the_connection_ends(database: Database, postgres: Postgres) -> None:
    with database.writing() as s:
        postgres.end_connections()
        campaign.campaigns(s)


@pytest.mark.postgres
def test_a_connection_that_the_server_ended_is_said_and_replaced(postgres: Postgres) -> None:
    database = open_database(postgres.clean())
    with pytest.raises(FarmError, match=r"terminating connection|connection .*closed"):
        read_while_the_connection_ends(database, postgres)
    with database.reading() as s:
        assert campaign.campaigns(s) == ()
    database.close()


def copy_rows(s: Session) -> None:
    insert_rows(s, fixture, [{"inputs_key": "a" * 64, "inputs_digest": "b" * 64}])


@pytest.mark.postgres
def test_a_connection_that_ends_under_many_rows_is_trouble_as_under_one(postgres: Postgres) -> None:
    """COPY goes past SQLAlchemy, whose errors alone are explained."""
    database = open_database(postgres.clean())

    def copy_into_the_void() -> None:
        with database.writing() as s:
            postgres.end_connections()
            with pytest.raises(sa.exc.OperationalError):  # and not psycopg's own
                copy_rows(s)

    with pytest.raises(DatabaseTrouble, match=r"connection .*(lost|closed)|terminating connection") as error:
        copy_into_the_void()
    assert "\n" not in str(error.value)
    with database.writing() as s:
        copy_rows(s)
    database.close()


@pytest.mark.postgres
def test_a_full_disk_under_many_rows_is_said_with_its_remedy(postgres: Postgres) -> None:
    database = open_database(postgres.clean())

    def copy_onto_a_full_disk() -> None:
        with database.writing() as s:  # the trigger goes with the transaction
            s.exec_driver_sql(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100'', MESSAGE = ''no space left''; END'"
            )
            s.exec_driver_sql(
                "CREATE TRIGGER no_room BEFORE INSERT ON fixture FOR EACH ROW EXECUTE FUNCTION full_disk()"
            )
            copy_rows(s)

    with pytest.raises(DatabaseTrouble, match=r"no space left; make room .* farm resume goes on"):
        copy_onto_a_full_disk()
    database.close()


def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    farm = Farm(open_database(f"sqlite:///{tmp_path}/farm.db"))
    farm.submit([case(1)])
    with farm.database.writing() as s:
        pages = s.exec_driver_sql("PRAGMA page_count").scalar_one()
        s.exec_driver_sql(f"PRAGMA max_page_count={pages + 20}")
    farm.complete(line(case(1)))
    with pytest.raises(FarmError, match=r"disk is full; make room .* farm resume goes on") as error:
        farm.submit([case(rows) for rows in range(1, 2000)])
    assert "\n" not in str(error.value)
    with farm.database.writing() as s:
        s.exec_driver_sql("PRAGMA max_page_count=100000")
        assert s.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        assert [row.jobs for row in campaign.campaigns(s)] == [1]
        assert len(evidence.of_case(s, case(1).id)) == 1
    farm.submit([case(rows) for rows in range(1, 2000)])
    farm.database.close()
