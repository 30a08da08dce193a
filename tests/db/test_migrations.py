"""A database of any released schema is upgraded with all its rows, and goes on working."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from db import agreement, blob, bug, campaign, capability, evidence, pack, sabotage, tables, token, trust
from db.cases import remember_inputs
from db.job import Target
from db.session import Database, known_revisions, open_database
from kernels.evidence import Verdict
from tests.db.making import BOARD, HOST, Farm, answer, case, line
from tests.db.test_benchmark import timed
from tests.db.test_bug import CELL
from tests.db.test_sabotage import SCORE

Rows = dict[str, list[dict[str, Any]]]
OLDER = known_revisions()[:-1]


def filled(farm: Farm) -> None:
    """Puts rows into every table: done, held and waiting jobs, a bundle's line, a score."""
    farm.submit([case(rows) for rows in range(1, 7)], [HOST, Target("twin", HOST.device_class)])
    passed, failed, lost, _held = farm.lease(4)
    farm.start([lost])
    farm.complete(answer(passed), answer(failed, Verdict.FAIL))
    farm.lose([lost])
    with farm.database.writing() as s:
        evidence.import_lines(s, [line(case(9)), timed(10, 5.0)], 30)
        elsewhere = line(case(rows=1), device=replace(BOARD, slug="cpu-1", uuid="uuid-1"))
        agreement.note(s, agreement.meetings(s, [elsewhere]), 30)
        blob.put_source(s, "5" * 64, (blob.SourceText("matvec/block", "Q4_K", "text"),))
        remember_inputs(s, {"a" * 64: "1" * 64})
        sabotage.put(s, SCORE)
        token.create(s, "rented-1", devices="*", now_us=1, expires_us=99)
        content = b"a catalog"
        pack.put(s, pack.StoredPack(hashlib.sha256(content).hexdigest(), "5" * 64, ("a/b",), content), 1)
        trust.note_exam(s, BOARD.slug, True, "", 40)
        bug.link(s, CELL, "https://bugs.example/1", 1)


def rows_of(database: Database) -> Rows:
    with database.reading() as s:
        return {
            table.name: [
                dict(row._mapping) for row in s.execute(sa.select(table).order_by(*table.primary_key))
            ]
            for table in tables.metadata.sorted_tables
        }


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What a farm wrote, table by table."""
    farm = Farm(open_database(f"sqlite:///{tmp_path_factory.mktemp('newest')}/farm.db"))
    filled(farm)
    found = rows_of(farm.database)
    farm.database.close()
    assert all(found.values()), "a table without a row tests nothing"
    return found


def made_at(url: str, revision: str, rows: Rows) -> Rows:
    """Makes a database as that release made it, and gives what was written: the columns that it had."""
    config = Config()
    config.set_main_option("script_location", str(files("db") / "migrations"))
    config.set_main_option("path_separator", "os")
    address = sa.make_url(url)
    postgres = address.get_backend_name() == "postgresql"
    engine = sa.create_engine(address.set(drivername="postgresql+psycopg") if postgres else address)
    written: Rows = {}
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        then = sa.MetaData()
        then.reflect(connection)
        for name in (table.name for table in then.sorted_tables if table.name in rows):
            columns = set(then.tables[name].c.keys())
            written[name] = [{key: row[key] for key in row if key in columns} for row in rows[name]]
            connection.execute(sa.insert(then.tables[name]), written[name])
            if postgres and "id" in columns and name != "epoch":
                connection.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT max(id) FROM {name}))"
                )
    engine.dispose()
    return written


@pytest.mark.parametrize("revision", OLDER)
def test_an_older_database_keeps_every_row(empty_url: str, revision: str, rows: Rows) -> None:
    written = made_at(empty_url, revision, rows)
    assert sum(map(len, written.values())) > 30
    database = open_database(empty_url)
    upgraded = rows_of(database)
    for name, before in written.items():
        after = [{key: row[key] for key in before[0]} for row in upgraded[name]]
        assert after == before, name
    with database.reading() as s:
        assert s.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one() not in OLDER
        if database.is_sqlite:
            assert s.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    database.close()


@pytest.mark.parametrize("revision", OLDER)
def test_an_older_database_goes_on_where_it_was(empty_url: str, revision: str, rows: Rows) -> None:
    made_at(empty_url, revision, rows)
    farm = Farm(open_database(empty_url))
    with farm.database.writing() as s:
        before = capability.cells(s)
        capability.rebuild(s)
        assert capability.cells(s) == before != ()
    leases = farm.lease()
    assert len(leases) == 3  # of twelve: two have verdicts, six are another backend's, one is held
    farm.complete(*map(answer, leases))
    made = farm.submit([case(50)])
    assert [leased.campaign_id for leased in farm.lease()] == [made]
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, made - 1).done == 5
    farm.database.close()


@pytest.mark.parametrize("trust_of_lines", ["own", "rented"])
def test_boards_with_lines_of_the_farms_own_become_its_own(
    empty_url: str, rows: Rows, trust_of_lines: str
) -> None:
    """What the coordinator wrote in a worker's place says own of every board."""
    told = [row | {"trust": trust_of_lines} if row["origin"] == "worker" else row for row in rows["evidence"]]
    assert {row["origin"] for row in told} == {"worker", "bundle", "coordinator"}
    made_at(empty_url, "0013", rows | {"evidence": told})
    database = open_database(empty_url)
    owned = {row["slug"]: (row["own"], row["token_id"]) for row in rows_of(database)["device"]}
    assert owned == {BOARD.slug: (trust_of_lines == "own", None)}
    database.close()


def test_cells_that_trouble_had_dated_get_the_date_of_what_ran(empty_url: str, rows: Rows) -> None:
    later = [row | {"last_run_us": row["last_run_us"] + 1} for row in rows["capability"]]
    made_at(empty_url, "0014", rows | {"capability": later})
    database = open_database(empty_url)
    assert rows_of(database)["capability"] == rows["capability"]
    with database.reading() as s:
        assert capability.stored(s) == capability.rebuilt(s)
    database.close()


def test_there_is_something_to_upgrade_from(tmp_path: Path) -> None:
    assert OLDER[0] == "0001"
