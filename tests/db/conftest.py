"""A database for each test: on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db.session import Database, open_database
from tests.db.making import Farm

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database may be made, or one is that has no row."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/farm.db"
    return str(request.getfixturevalue("postgres").clean())


@pytest.fixture(params=KINDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no table is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/farm.db"
    return str(request.getfixturevalue("postgres").empty())


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def farm(database: Database) -> Farm:
    return Farm(database)
