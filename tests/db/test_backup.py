"""Copies of a database that is in use: whole, or not there."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa

from db import check
from db.backup import backup
from db.session import Database, open_database, open_existing
from kernels.errors import FarmError
from tests.db.making import Farm, case
from tests.db.test_migrations import filled, rows_of
from tests.postgres import Postgres


def restored(postgres: Postgres, dump: Path) -> Database:
    address = postgres.empty()
    subprocess.run(
        [postgres.program("pg_restore"), "--no-owner", f"--dbname={address}", "--clean", "--if-exists", dump],
        check=True, capture_output=True,
    )  # fmt: skip
    return open_existing(address)


@pytest.fixture
def copied(farm: Farm, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch) -> tuple[Farm, Path]:
    """A database with rows of every sort, and its copy."""
    filled(farm)
    if not farm.database.is_sqlite:
        postgres = request.getfixturevalue("postgres")
        monkeypatch.setenv("PATH", str(Path(postgres.program("pg_dump")).parent), prepend=os.pathsep)
    with farm.database.reading() as s:  # somebody reads meanwhile
        s.execute(sa.text("SELECT 1"))
        assert backup(farm.database, tmp_path / "copy") == (tmp_path / "copy").stat().st_size > 10_000
    return farm, tmp_path / "copy"


def test_a_copy_has_every_row_and_is_whole(copied: tuple[Farm, Path], request: pytest.FixtureRequest) -> None:
    farm, path = copied
    written = rows_of(farm.database)
    if farm.database.is_sqlite:
        copy = open_existing(f"sqlite:///{path}")
    else:
        farm.database.close()
        copy = restored(request.getfixturevalue("postgres"), path)
    assert rows_of(copy) == written
    with copy.reading() as s:
        assert check.check(s).complaints == ()
    copy.close()


def test_a_copy_is_for_its_owner_alone_and_never_written_over(copied: tuple[Farm, Path]) -> None:
    farm, path = copied
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FarmError, match="is there already; name another file"):
        backup(farm.database, path)
    assert [entry.name for entry in path.parent.iterdir() if entry.name.endswith(".tmp")] == []


def test_a_copy_that_can_not_be_written_is_not_begun(database: Database, tmp_path: Path) -> None:
    with pytest.raises(FarmError, match=r"can't write .*/nowhere/copy: No such file or directory"):
        backup(database, tmp_path / "nowhere" / "copy")


def test_a_damaged_database_is_not_copied(tmp_path: Path) -> None:
    farm = Farm(open_database(f"sqlite:///{tmp_path}/farm.db"))
    farm.submit([case(rows) for rows in range(1, 300)])
    farm.database.close()
    content = bytearray((tmp_path / "farm.db").read_bytes())
    content[-20 * 4096 :] = os.urandom(20 * 4096)
    (tmp_path / "farm.db").write_bytes(content)
    database = open_existing(f"sqlite:///{tmp_path}/farm.db")
    with pytest.raises(FarmError, match=r"is damaged|malformed"):
        backup(database, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    database.close()


@pytest.mark.postgres
def test_without_pg_dump_it_is_said_what_to_install(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(postgres.clean())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FarmError, match="no pg_dump on PATH; install postgresql-client"):
        backup(database, tmp_path / "copy")
    database.close()


@pytest.mark.postgres
def test_what_pg_dump_complains_of_is_one_line(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(
        "#!/bin/sh\necho 'pg_dump: error: aborting because of server version mismatch' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    database = open_database(postgres.clean())
    with pytest.raises(FarmError, match=r"^pg_dump: error: aborting because of server version mismatch$"):
        backup(database, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    database.close()
