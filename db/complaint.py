"""What a database file or server complains of, in one line; our own mistakes are none of these."""

from __future__ import annotations

from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from kernels.errors import FarmError

SQLITE_BUSY, SQLITE_LOCKED, SQLITE_FULL = 5, 6, 13
# Classes and codes of PostgreSQL's errors that a server or its operator causes, not a statement of ours:
# connection, read only, who may come in, no such database, no schema, no right, resources, object in use,
# operator, system.
FROM_SERVER = ("08", "25006", "28", "3D", "3F", "42501", "53", "55", "57", "58", "XX")
GRANT = "its owner can GRANT CREATE, USAGE ON SCHEMA public"
REMEDIES = {
    "3F000": GRANT,
    "42501": GRANT,
    "53100": "make room on the server's disk; what was committed is there, farm resume goes on",
}
FULL = "make room on its disk; what was committed is there, farm resume goes on"


class DatabaseTrouble(FarmError):
    """The file or the server is at fault: what was committed is there, and asking later may be answered."""


def is_complaint(error: DBAPIError) -> bool:
    """Whether the file or the server is at fault, and a person must do something about it."""
    code = _sqlstate(error)
    if code:
        return code.startswith(FROM_SERVER)
    # A wrong word in the address is told by the driver, before there is a server to give a code.
    in_address = "connection option" in str(error.orig)
    return in_address or type(error) in (OperationalError, DatabaseError, DBAPIError)


def is_busy(error: DBAPIError) -> bool:
    """Whether SQLite had another writer; asking again is right."""
    return _sqlite_code(error) in (SQLITE_BUSY, SQLITE_LOCKED)


def line_about(error: DBAPIError, label: str, waited_s: float) -> str:
    """The complaint with the database's name in front and, where there is one, the remedy behind."""
    if is_busy(error):
        return f"{label} is locked: others have been writing for {waited_s:g} s; try again"
    remedy = FULL if _sqlite_code(error) == SQLITE_FULL else REMEDIES.get(_sqlstate(error), "")
    return "; ".join(filter(None, (f"{label}: {_first_line(error)}", remedy)))


def _sqlstate(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _sqlite_code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
