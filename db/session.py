"""Opens a database at the schema this code knows, and hands out transactions for reading and for writing.

    database = open_database(url)        # makes or upgrades it
    database = open_existing(url)        # for commands that only read: never makes a file
    with database.writing() as s: ...    # BEGIN IMMEDIATE, commit at exit, rollback on an error
    with database.reading() as s: ...    # one consistent snapshot

Every function of this room takes the session `s` first; a session belongs to one thread and one `with`.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from db.complaint import DatabaseTrouble, is_busy, is_complaint, line_about
from db.place import refuse_network
from kernels.errors import FarmError, UsageError

Session = sa.Connection

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
BUSY_TIMEOUT_MS = 5_000  # one wait inside SQLite; it may come back early, so writing() asks again
PAUSE_S = 0.01  # between two asks, where SQLite doesn't wait by itself
GIVE_UP_S = 120.0
CACHE_KIB = 32_768  # of SQLite's pages per connection: the upper levels of the indexes of a million rows
CHECKPOINT_PAGES = (
    4_000  # SQLite's log is 16 MB before it is copied into the file, which takes syncs of its own
)
CONNECT_S = 10  # for a server to answer, unless the address says how long
LOCK_KEY = 0x6B66  # any constant: PostgreSQL's advisory lock that stands for SQLite's single writer


@dataclass(frozen=True)
class Database:
    """An open database; cheap to keep, safe to share between threads."""

    engine: sa.Engine
    label: str  # the address without its password, for messages
    give_up_s: float = GIVE_UP_S

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with self.explained(), self._begun(writes=False) as s:
            yield s
            s.rollback()

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that holds the write lock; waits for other writers, commits at exit."""
        with self.explained(), self._begun(writes=True) as s:
            if not self.is_sqlite:
                # One writer at a time there too: folds read what earlier writers left.
                s.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_KEY)))
            yield s
            s.commit()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        self.engine.dispose()

    def revision(self) -> str | None:
        """The schema's revision; None for a database without a table."""
        with self.reading() as s:
            return _revision(s, self.label)

    def shrink(self) -> None:
        """Gives room that removed rows leave back to the disk; a server does so by itself."""
        if not self.is_sqlite:
            return
        connection = self.engine.raw_connection()  # VACUUM goes outside of any transaction
        try:
            connection.cursor().execute("VACUUM")
        except sqlite3.Error as error:
            raise FarmError(f"{self.label}: {error}") from error
        finally:
            connection.close()

    def _begun(self, writes: bool) -> Session:
        """A connection in a transaction; asks until it is given or `give_up_s` is over."""
        until = time.monotonic() + self.give_up_s
        while True:
            try:
                return self._begin(writes)
            except OperationalError as error:
                if not is_busy(error) or time.monotonic() >= until:
                    raise
            time.sleep(PAUSE_S)

    def _begin(self, writes: bool) -> Session:
        snapshot = {} if writes or self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        s = self.engine.connect().execution_options(farm_writes=writes, **snapshot)
        with ExitStack() as undo:
            undo.callback(s.close)
            s.begin()
            undo.pop_all()
        return s

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns complaints of the file or the server into one line; our own mistakes stay as they are."""
        try:
            yield
        except DBAPIError as error:
            if not is_complaint(error):
                raise
            raise DatabaseTrouble(line_about(error, self.label, self.give_up_s)) from error


def open_database(url: str) -> Database:
    """The database at `url`, made if it isn't there and upgraded if it is older than this code.

    FarmError in one line where it is newer, no farm's, locked, damaged or out of reach.
    """
    address = parse(url)
    if address.drivername == "sqlite":
        path = Path(str(address.database))
        refuse_network(path)
        _make_folder(path.parent)
    return _opened(address)


def open_existing(url: str) -> Database:
    """As open_database, for commands that only read: FarmError where there is no database yet.

    A file that this user may not write is opened for reading alone.
    """
    address = parse(url)
    if address.drivername != "sqlite":
        return _opened(address)
    path = Path(str(address.database))
    _demand_file(path)
    return _opened(address, read_only=not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)))


def upgrade(url: str) -> tuple[str | None, str]:
    """Brings an existing database to head; the revision before (None: it was empty) and after."""
    address = parse(url)
    if address.drivername == "sqlite":
        _demand_file(Path(str(address.database)))
    database = Database(_engine(address), shown(address))
    try:
        before = database.revision()
        _bring_to_head(database)
        return before, known_revisions()[-1]
    finally:
        database.close()


def _demand_file(path: Path) -> None:
    if not path.exists():
        raise FarmError(f"no database at {path}; farm submit or farm up makes one")
    refuse_network(path)


def insert_new(s: Session, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows and keeps the ones that are there already, by primary key or unique constraint."""
    if rows:
        dialect = importlib.import_module(f"sqlalchemy.dialects.{s.dialect.name}")
        s.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def _opened(address: sa.URL, read_only: bool = False) -> Database:
    engine = _read_only_engine(Path(str(address.database))) if read_only else _engine(address)
    database = Database(engine, shown(address))
    with ExitStack() as undo:
        undo.callback(database.close)
        _bring_to_head(database)
        undo.pop_all()
    return database


def shown(url: sa.URL | str) -> str:
    """A database's address as it may be printed: without its password, and as a person writes it."""
    address = _without_open_password(sa.make_url(url))
    return address.set(drivername=address.get_backend_name()).render_as_string(hide_password=True)


def passwords_in(url: sa.URL | str) -> tuple[str, ...]:
    """What of a database's address must never be written anywhere."""
    address = _without_open_password(sa.make_url(url))
    return (str(address.password),) if address.password else ()


def _without_open_password(address: sa.URL) -> sa.URL:
    """Puts a password that is among the options, where every print of the address shows it, in its place."""
    if "password" not in address.query:
        return address
    said = address.query["password"]
    said = said if isinstance(said, str) else said[-1]
    return address.difference_update_query(["password"]).set(password=said)


def parse(url: str) -> sa.URL:
    """The address that a person wrote; UsageError, in which nothing of it is quoted, where it is none."""
    try:
        address = _without_open_password(sa.make_url(url))
    except (ArgumentError, ValueError):  # of a port that is no number, too
        raise UsageError(
            "that is no database URL; write sqlite:///FOLDER/farm.db or postgresql://USER@HOST/NAME"
        ) from None
    family = address.get_backend_name()
    if family not in DRIVERS:
        raise UsageError(f"no database of type {family!r} is supported; there are {', '.join(DRIVERS)}")
    if family == "sqlite" and address.database in (None, "", ":memory:"):
        raise UsageError("the farm's processes share a file; write sqlite:///FOLDER/farm.db")
    if family != "sqlite" and "@" in f"{address.host}{address.database}":
        # What stands there may be the rest of a password.
        raise UsageError(
            "the database URL has an @ in its host or name; in user and password write %40 for @, %2F for /"
        )
    if "sslpassword" in address.query:  # programs are told the address, and lists of processes show it
        raise UsageError(
            "the database URL has an sslpassword; put it into a service file and write service=NAME, "
            "or use a key without"
        )
    return address.set(drivername=DRIVERS[family])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FarmError(f"can't make the folder {folder}: {error.strerror}") from None


def _engine(address: sa.URL) -> sa.Engine:
    try:
        if address.drivername != "sqlite":
            waits = {} if "connect_timeout" in address.query else {"connect_timeout": CONNECT_S}
            return sa.create_engine(address, pool_pre_ping=True, connect_args=waits)
        engine = sa.create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    except ImportError as error:
        raise FarmError(
            f"no driver for {address.get_backend_name()}: {error}; ./run pip install -e '.[postgres]'"
        ) from None
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _read_only_engine(path: Path) -> sa.Engine:
    """SQLite over a file that can't be written; it needs no lock where no writer has left a log beside it."""
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{path.absolute().as_uri()}?{mode}"

    def connect() -> sqlite3.Connection:
        timeout_s = BUSY_TIMEOUT_MS / 1000
        return sqlite3.connect(address, timeout_s, isolation_level=None, check_same_thread=False, uri=True)

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    """Durable against power loss, readers beside one writer, and no transaction that we didn't begin."""
    connection.isolation_level = None
    # The mode is kept in the file, and asking for it again takes a lock.
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("farm_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def known_revisions() -> list[str]:
    """Revisions this code can bring a database to, oldest first: the files' number is the revision."""
    names = (entry.name for entry in (files("db") / "migrations" / "versions").iterdir())
    return sorted(name.partition("_")[0] for name in names if name.endswith(".py"))


def _bring_to_head(database: Database) -> None:
    head = known_revisions()[-1]
    if database.revision() == head:
        return
    with database.writing() as s:
        # Another process may have been faster; the lock is ours now, so this answer stays true.
        if _revision(s, database.label) != head:
            _upgrade(s)


def _revision(s: Session, label: str) -> str | None:
    """The schema's revision, None for an empty database; FarmError where this code must not touch it."""
    tables = set(sa.inspect(s).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "campaign"} <= tables:
        raise FarmError(
            f"{label} is no farm's database: its tables are {', '.join(sorted(tables)[:4])}; name another"
        )
    rows = s.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    found = ", ".join(map(str, rows)) or "without a number"
    known = known_revisions()
    if found not in known:
        raise FarmError(
            f"{label} has schema {found}, this farm knows {known[0]} to {known[-1]}; update the farm"
        )
    return found


def _upgrade(s: Session) -> None:
    """Runs the migrations inside the session's transaction."""
    # Alembic takes a tenth of a second to import, and is wanted only when there is something to upgrade.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": s})
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(files("db") / "migrations").replace("%", "%%"))
    command.upgrade(config, "head")
