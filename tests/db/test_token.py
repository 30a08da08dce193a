"""Tokens: found by their secret alone, ended by time and by hand."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from db import token
from db.session import Database
from db.token import Refused
from kernels.errors import UsageError

DAY = 86_400_000_000


def make(database: Database, name: str = "bench", expires_us: int = DAY) -> str:
    with database.writing() as s:
        return token.create(s, name, devices="rtx-*", now_us=1, expires_us=expires_us)


def test_a_token_is_found_by_its_secret(database: Database) -> None:
    secret = make(database)
    with database.reading() as s:
        row = token.find(s, secret, now_us=2)
        assert (row.name, row.devices, row.state(2)) == ("bench", "rtx-*", "valid")


def test_no_column_holds_the_secret(database: Database) -> None:
    secret = make(database)
    with database.reading() as s:
        stored = [str(value) for value in s.execute(sa.text("SELECT * FROM token")).one()]
    assert len(stored) == 8
    assert not [value for value in stored if secret in value or secret.removeprefix("farm_") in value]


def test_two_tokens_differ(database: Database) -> None:
    first, second = make(database), make(database, "other")
    assert first != second
    assert min(len(first), len(second)) > 40


@pytest.mark.parametrize(
    ("now_us", "revoked", "state"), [(DAY, False, "expired"), (2, True, "revoked"), (DAY, True, "revoked")]
)
def test_an_ended_token_lets_nobody_in(database: Database, now_us: int, revoked: bool, state: str) -> None:
    secret = make(database)
    if revoked:
        with database.writing() as s:
            token.revoke(s, "bench", 2)
    with database.reading() as s, pytest.raises(Refused, match=f"the token is {state}"):
        token.find(s, secret, now_us)


@pytest.mark.parametrize("secret", ["", "farm_", "farm_x", "' OR 1=1 --"])
def test_a_wrong_secret_is_unknown(database: Database, secret: str) -> None:
    make(database)
    with database.reading() as s, pytest.raises(Refused, match="the token is unknown"):
        token.find(s, secret, 2)


def test_a_name_is_given_once(database: Database) -> None:
    make(database)
    with pytest.raises(UsageError, match="a token named 'bench' is there already"):
        make(database)


def test_revoking_names_what_there_is(database: Database) -> None:
    make(database)
    with database.writing() as s, pytest.raises(UsageError, match="no token named 'bnech'; there are bench"):
        token.revoke(s, "bnech", 2)


def test_revoking_twice_keeps_the_first_time(database: Database) -> None:
    make(database)
    with database.writing() as s:
        token.revoke(s, "bench", 5)
        token.revoke(s, "bench", 9)
        assert [row.revoked_us for row in token.tokens(s)] == [5]
