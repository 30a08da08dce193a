"""At most one head at work on a database: the process that leases, for as long as it does.

    with only_head(database): ...    # FarmError where another one is at work

A file has a lock file beside it, a server an advisory lock; both end with their process. Where a lock is
lost with a connection, the epoch still makes the older head's writes fail.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from db.session import Database
from kernels.errors import FarmError

WAIT = "wait for its end, or leave it a campaign with farm submit --detach"
HEAD_KEY = 0x6B68  # any constant but session.LOCK_KEY
# Where the connection that holds the lock comes from.
HOLDER = """
    SELECT coalesce(host(client_addr), 'this server') FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND objid = :key AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@contextmanager
def only_head(database: Database) -> Iterator[None]:
    """Keeps other heads off the database while the body runs."""
    path = database.engine.url.database
    with _locked_file(Path(str(path))) if database.is_sqlite else _locked_server(database):
        yield


@contextmanager
def _locked_file(path: Path) -> Iterator[None]:
    with open(f"{path}.lock", "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FarmError(
                f"another farm (process {file.read().strip()}) is at work on {path}; {WAIT}"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def _locked_server(database: Database) -> Iterator[None]:
    with database.explained():
        connection = database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with connection:
        with database.explained():
            taken = connection.execute(sa.select(sa.func.pg_try_advisory_lock(HEAD_KEY))).scalar_one()
            holder = None if taken else connection.execute(sa.text(HOLDER), {"key": HEAD_KEY}).scalar()
        if not taken:
            raise FarmError(
                f"another farm (from {holder or 'a machine that just left'}) is at work on {database.label};"
                f" {WAIT}"
            )
        try:
            yield
        finally:
            connection.invalidate()  # ends the connection, and the lock with it, even where it is broken
