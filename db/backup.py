"""A whole copy of a database while the farm goes on: one file, or none.

backup(database, path) -> bytes written      # SQLite: a database file; PostgreSQL: a dump for pg_restore
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from db.session import Database
from kernels.errors import FarmError

PAGES = 4096  # copied at a time, between which others may write


def backup(database: Database, path: Path) -> int:
    """Writes a copy of one state of the database to a file that must not be there yet."""
    if path.exists():
        raise FarmError(f"{path} is there already; name another file")
    with _whole(path) as fresh:
        (_copy_sqlite if database.is_sqlite else _dump_postgres)(database, fresh)
    return path.stat().st_size


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A name beside the file, which becomes the file at the end, or goes."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield fresh
        fresh.replace(path)
    except OSError as error:
        raise FarmError(f"can't write {path}: {error.strerror or error}; name another file") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _copy_sqlite(database: Database, fresh: Path) -> None:
    source = database.engine.raw_connection()
    try:
        with closing(sqlite3.connect(fresh)) as copy:
            driver: Any = source.driver_connection
            driver.backup(copy, pages=PAGES)
            (said,) = copy.execute("PRAGMA quick_check").fetchone()
    except sqlite3.Error as error:
        raise FarmError(
            f"can't copy {database.label}: {error}; is there room on the disk of {fresh}?"
        ) from error
    finally:
        source.close()
    if said != "ok":
        raise FarmError(f"{database.label} is damaged: {said}; its copy would be, too")


def _dump_postgres(database: Database, fresh: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise FarmError("no pg_dump on PATH; install postgresql-client, of the server's version or newer")
    address = database.engine.url
    # The password goes where no list of processes shows it.
    environment = os.environ | ({"PGPASSWORD": str(address.password)} if address.password else {})
    words = [program, "--format=custom", "--no-password", f"--file={fresh}", f"--dbname={_plain(address)}"]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = next((line for line in ended.stderr.splitlines() if line.strip()), "it said nothing")
        raise FarmError(f"pg_dump: {said.removeprefix('pg_dump: ')}")


def _plain(address: sa.URL) -> str:
    """The address as libpq takes it, without the password."""
    plain = sa.URL.create(
        "postgresql", address.username, None, address.host, address.port, address.database, address.query
    )
    return plain.render_as_string()
