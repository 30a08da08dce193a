"""Blobs: found by what is in them, and refused when they aren't what they were."""

from __future__ import annotations

import hashlib

import pytest
import sqlalchemy as sa

from db import blob, tables
from db.blob import SourceText
from db.session import Database
from kernels.errors import FarmError


def test_a_text_put_twice_is_stored_once(database: Database) -> None:
    with database.writing() as s:
        digests = {blob.put(s, "// µ-kernel\n") for _ in range(2)}
        assert digests == {hashlib.sha256("// µ-kernel\n".encode()).hexdigest()}
        assert s.execute(sa.select(sa.func.count()).select_from(tables.blob)).scalar_one() == 1
        assert blob.get(s, digests.pop()) == "// µ-kernel\n"


def test_an_absent_blob_is_an_error(database: Database) -> None:
    with database.reading() as s, pytest.raises(FarmError, match="no blob 000"):
        blob.get(s, "0" * 64)


def test_a_damaged_blob_is_an_error(database: Database) -> None:
    with database.writing() as s:
        sha256 = blob.put(s, "text")
        s.execute(sa.update(tables.blob).values(content=b"texT"))
        with pytest.raises(FarmError, match="is damaged"):
            blob.get(s, sha256)


def test_the_texts_of_a_source_keep_their_order(database: Database) -> None:
    texts = (SourceText("matvec/block", "Q4_K", "b"), SourceText("silu_mul/flat", "", "a"))
    with database.writing() as s:
        blob.put_source(s, "5" * 64, texts)
        blob.put_source(s, "5" * 64, texts)
        assert blob.source_texts(s, "5" * 64) == texts
        assert blob.source_texts(s, "6" * 64) == ()
