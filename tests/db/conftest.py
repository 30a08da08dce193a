"""An empty database: SQLite, and PostgreSQL too where FARM_TEST_POSTGRES is the URL of one to be emptied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from db.session import Database, open_database
from tests.db.making import Farm

POSTGRES = os.environ.get("FARM_TEST_POSTGRES", "")
KINDS = ["sqlite", *([pytest.param("postgres", marks=pytest.mark.postgres)] if POSTGRES else [])]


def _emptied(url: str) -> str:
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    return url


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/farm.db" if request.param == "sqlite" else _emptied(POSTGRES)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def farm(database: Database) -> Farm:
    return Farm(database)
