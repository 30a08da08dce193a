"""Many rows in one statement, past the machinery that makes a statement anew for every call.

insert_rows(s, table, [{column: value, …}, …])               # every row with the same columns
update_rows(s, table, ("id",), [{"id": 1, column: value, …}, …])   # the row that each key names
set_rows(s, table, "id", ids, column=value, …)               # all of them alike

Values go to the driver as they are: text, numbers, truth, bytes and None. A server is told in one go what a
file is told row by row: there a statement costs a message, here a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from db.session import Session

Rows = Sequence[Mapping[str, Any]]


def insert_rows(s: Session, table: sa.Table, rows: Rows) -> None:
    """Inserts rows; none may be there."""
    if not rows:
        return
    names = tuple(rows[0])
    values = itemgetter(*names)  # of two columns at least; rows may have theirs in any order
    if s.dialect.name == "sqlite":
        marks = ", ".join("?" * len(names))
        text = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
        s.exec_driver_sql(text, [values(row) for row in rows])
        return
    driver: Any = s.connection.driver_connection  # psycopg's: no other interface has COPY
    text = f"COPY {table.name} ({', '.join(names)}) FROM STDIN"
    with _as_any_statement(s, text), driver.cursor() as cursor, cursor.copy(text) as copy:
        for row in rows:
            copy.write_row(values(row))


@contextmanager
def _as_any_statement(s: Session, text: str) -> Iterator[None]:
    """Has the driver's own errors come as any other statement's: Database.explained knows no others."""
    driver: Any = s.dialect.loaded_dbapi
    try:
        yield
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error, dialect=s.dialect) from error


def update_rows(s: Session, table: sa.Table, key: tuple[str, ...], rows: Rows) -> None:
    """Sets the columns of the rows that the key names; each is named once."""
    if not rows:
        return
    names = tuple(name for name in rows[0] if name not in key)
    values = itemgetter(*names, *key)
    if s.dialect.name == "sqlite":
        s.exec_driver_sql(_update(table.name, key, names), [values(row) for row in rows])
    else:
        columns = zip(*(values(row) for row in rows), strict=True)
        s.exec_driver_sql(_update_at_once(table, key, names), tuple(map(list, columns)))


def set_rows(s: Session, table: sa.Table, key: str, ids: Sequence[Any], **values: Any) -> None:
    """Sets the same values in every row that `ids` name."""
    if not ids:
        return
    if s.dialect.name == "sqlite":
        some, mark = "IN (SELECT value FROM json_each(?))", "?"
    else:
        some, mark = f"= ANY(%s::{_type(table, key)}[])", "%s"
    setting = ", ".join(f"{name} = {mark}" for name in values)
    held = json.dumps(list(ids)) if mark == "?" else list(ids)
    s.exec_driver_sql(f"UPDATE {table.name} SET {setting} WHERE {key} {some}", (*values.values(), held))


@cache
def _update(table: str, key: tuple[str, ...], names: tuple[str, ...]) -> str:
    setting, where = (f"{name} = ?" for name in names), (f"{name} = ?" for name in key)
    return f"UPDATE {table} SET {', '.join(setting)} WHERE {' AND '.join(where)}"


@cache
def _update_at_once(table: sa.Table, key: tuple[str, ...], names: tuple[str, ...]) -> str:
    """PostgreSQL's: a list for every column."""
    lists = ", ".join(f"%s::{_type(table, name)}[]" for name in (*names, *key))
    setting = ", ".join(f"{name} = new.{name}" for name in names)
    where = " AND ".join(f"{table.name}.{name} = new.{name}" for name in key)
    return (
        f"UPDATE {table.name} SET {setting}"
        f" FROM unnest({lists}) AS new({', '.join((*names, *key))}) WHERE {where}"
    )


def _type(table: sa.Table, name: str) -> str:
    """What PostgreSQL calls the values of a column."""
    kinds = {int: "bigint", float: "double precision", bool: "boolean"}
    return kinds.get(table.c[name].type.python_type, "text")
