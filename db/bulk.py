"""Many rows in one statement, past the machinery that makes a statement anew for every call.

insert_rows(s, table, [{column: value, …}, …])           # every row with the same columns
update_rows(s, table, "id", [{"id": 1, column: value, …}, …])

Values go to the driver as they are: text, numbers, truth, bytes and None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from db.session import Session

MARKS = {"qmark": "?", "pyformat": "%s"}  # a parameter as SQLite's and PostgreSQL's drivers write it

Rows = Sequence[Mapping[str, Any]]


def insert_rows(s: Session, table: sa.Table, rows: Rows) -> None:
    """Inserts rows; none may be there."""
    if rows:
        names = tuple(rows[0])
        values = itemgetter(*names)  # of two columns at least; rows may have theirs in any order
        s.exec_driver_sql(_insert(table.name, names, _mark(s)), [values(row) for row in rows])


def update_rows(s: Session, table: sa.Table, key: str, rows: Rows) -> None:
    """Sets the columns of the rows that the key names."""
    if rows:
        names = tuple(name for name in rows[0] if name != key)
        values = itemgetter(*names, key)
        s.exec_driver_sql(_update(table.name, key, names, _mark(s)), [values(row) for row in rows])


def _mark(s: Session) -> str:
    return MARKS[s.dialect.paramstyle]


@cache
def _insert(table: str, names: tuple[str, ...], mark: str) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join([mark] * len(names))})"


@cache
def _update(table: str, key: str, names: tuple[str, ...], mark: str) -> str:
    return f"UPDATE {table} SET {', '.join(f'{name} = {mark}' for name in names)} WHERE {key} = {mark}"
