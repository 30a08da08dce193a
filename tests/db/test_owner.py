"""Whose boards are, as tokens come and go."""

from __future__ import annotations

import pytest

from db import device, owner, token
from db.session import Database, Session
from tests.db.making import BOARD

DAY = 86_400_000_000


def made(s: Session, name: str, devices: str = "*", expires_us: int = DAY) -> int:
    token.create(s, name, devices=devices, now_us=1, expires_us=expires_us)
    return token.tokens(s)[-1].id


def test_a_board_that_nobody_knows_is_the_first_ones(database: Database) -> None:
    with database.writing() as s:
        first, second = made(s, "first"), made(s, "second")
        assert owner.refusal(s, BOARD.slug, first, 2) == owner.refusal(s, BOARD.slug, second, 2) == ""
        device.see(s, BOARD, 2)  # as an import does, which makes it nobody's
        owner.note(s, BOARD.slug, first)
        assert owner.refusal(s, BOARD.slug, first, 2) == ""
        assert "is another token's" in owner.refusal(s, BOARD.slug, second, 2)


@pytest.mark.parametrize(("now_us", "revoked"), [(DAY, False), (2, True)])
def test_a_token_that_has_ended_owns_nothing(database: Database, now_us: int, revoked: bool) -> None:
    with database.writing() as s:
        first, second = made(s, "first"), made(s, "second", expires_us=2 * DAY)
        device.see(s, BOARD, 2)
        owner.note(s, BOARD.slug, first)
        if revoked:
            token.revoke(s, "first", 2)
        assert owner.refusal(s, BOARD.slug, second, now_us) == ""


def test_what_was_ever_the_farms_own_stays_so(database: Database) -> None:
    with database.writing() as s:
        named, glob = made(s, "named", devices=BOARD.slug), made(s, "glob", devices="cpu-?")
        device.see(s, BOARD, 2)
        owner.note(s, BOARD.slug, 0)
        owner.note(s, BOARD.slug, named)
        token.revoke(s, "named", 2)
        assert owner.refusal(s, BOARD.slug, named, 2) == owner.refusal(s, BOARD.slug, 0, 2) == ""
        assert owner.refusal(s, BOARD.slug, glob, 2) == (
            "board cpu-0 is this farm's own, and this token is for cpu-?; "
            "farm token new NAME --device cpu-0 makes one that may speak for it"
        )
