"""Catalogs in the database: once each, whole, and the newest for a kernel."""

from __future__ import annotations

import hashlib

import pytest
import sqlalchemy as sa

from db import pack
from db.pack import StoredPack
from db.session import Database
from kernels.errors import FarmError


def stored(content: bytes, *kernels: str) -> StoredPack:
    return StoredPack(hashlib.sha256(content).hexdigest(), "d" * 64, kernels, content)


FIRST, SECOND = stored(b"one", "matvec/a", "matvec/b"), stored(b"two", "matvec/b")


def test_a_catalog_comes_back_as_it_was(database: Database) -> None:
    with database.writing() as s:
        pack.put(s, FIRST, 1)
        pack.put(s, FIRST, 2)
        assert pack.get(s, FIRST.address) == b"one"
        assert s.execute(sa.text("SELECT count(*) FROM pack")).scalar() == 1


def test_the_catalog_stored_last_has_the_kernel(database: Database) -> None:
    with database.writing() as s:
        pack.put(s, FIRST, 1)
        pack.put(s, SECOND, 2)
        assert pack.newest(s) == {"matvec/a": FIRST.address, "matvec/b": SECOND.address}
        pack.put(s, FIRST, 3)  # submitted again
        assert pack.newest(s) == {"matvec/a": FIRST.address, "matvec/b": FIRST.address}


def test_a_catalog_that_is_gone_or_damaged_is_said(database: Database) -> None:
    with database.writing() as s:
        with pytest.raises(FarmError, match=f"no catalog {FIRST.address[:12]} in this database"):
            pack.get(s, FIRST.address)
        pack.put(s, FIRST, 1)
        s.execute(sa.text("UPDATE blob SET content = :c"), {"c": b"other"})
        with pytest.raises(FarmError, match=f"catalog {FIRST.address[:12]} is damaged in this database"):
            pack.get(s, FIRST.address)
