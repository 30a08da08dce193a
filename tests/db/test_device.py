"""Boards: one row each, in the state they were seen in last."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from db import device, tables
from db.session import Database
from tests.db.making import BOARD

UPDATED = replace(BOARD, fingerprint=(("compiler", "g++ 14"),))


def test_a_board_seen_twice_is_one_row(database: Database) -> None:
    with database.writing() as s:
        device.see(s, BOARD, 5)
        device.see(s, BOARD, 8)
        assert device.devices(s) == (device.DeviceRow(BOARD, 5, 8),)


def test_a_changed_board_keeps_its_old_fingerprint(database: Database) -> None:
    with database.writing() as s:
        device.see(s, BOARD, 5)
        device.see(s, UPDATED, 8)
        assert device.newest(s, BOARD.slug) == UPDATED
        assert s.execute(sa.select(sa.func.count()).select_from(tables.fingerprint)).scalar_one() == 2


def test_an_old_sighting_that_arrives_late_is_not_the_newest(database: Database) -> None:
    with database.writing() as s:
        device.see(s, UPDATED, 8)
        device.see(s, BOARD, 5)
        assert device.devices(s) == (device.DeviceRow(UPDATED, 5, 8),)


def test_boards_come_by_class_and_slug(database: Database) -> None:
    boards = [replace(BOARD, slug=slug, device_class=of) for slug, of in (("b", "x"), ("c", "a"), ("a", "x"))]
    with database.writing() as s:
        for board in boards:
            device.see(s, board, 1)
        assert [row.device.slug for row in device.devices(s)] == ["c", "a", "b"]
