"""The matrix is read when rows changed, not too often, and beside those who ask where it takes long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from db import evidence
from db.session import Database, open_existing
from farm import held
from farm.held import Holder
from tests.farm.conftest import Clock
from tests.farm.lines import case_of, database_with, line_of


@pytest.fixture
def one_line(tmp_path: Path) -> Database:
    return open_existing(database_with(tmp_path, [line_of()]))


def add(database: Database, kind: str) -> None:
    with database.writing() as s:
        evidence.import_lines(s, [line_of(case=case_of(kind))], 4_000_000)


def ran(holder: Holder) -> int:
    return sum(cell.verdict is not None for cell in holder.now().matrix.cells)


def test_a_matrix_is_read_again_when_rows_changed_and_no_sooner(one_line: Database) -> None:
    clock = Clock()
    holder = Holder(one_line, clock=clock)
    first = holder.now()
    clock.now += held.FRESH_S
    assert holder.now() is first
    add(one_line, "Q4_K")
    assert holder.now() is first  # asked a moment ago
    clock.now += held.FRESH_S
    assert ran(holder) == 2


def test_a_reading_that_takes_long_keeps_nobody_waiting(
    one_line: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read = Clock(), held.read_matrix

    def slow(*args: object) -> object:
        clock.now += 2.0
        return read(*args)

    monkeypatch.setattr(held, "read_matrix", slow)
    holder = Holder(one_line, share=0.2, clock=clock)
    first = holder.now()
    add(one_line, "Q4_K")
    clock.now += 9.9
    assert holder.now() is first  # two seconds of work allow the next after ten
    clock.now += 0.2
    assert holder.now() is first
    until = time.monotonic() + 60
    while holder.now() is first and time.monotonic() < until:
        time.sleep(0.01)
    assert ran(holder) == 2
