"""`farm down` names the machines that were at work and the tokens that were used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from db import device, token
from db.session import Database, open_database
from farm.cli.down import still_there
from farm.cluster.head_file import label_of
from farm.coordinator import Coordinator
from farm.elsewhere import RECENT_US, elsewhere
from kernels import catalog
from tests.farm.conftest import DEVICE, Clock, FakeAgent

NOW_US = 10 * RECENT_US
RENTED = replace(DEVICE, slug="rtx-4090-1", uuid="uuid-2")


def see(database: Database, which: object, seen_us: int) -> None:
    with database.writing() as s:
        device.see(s, which, seen_us)


def told(database: Database, here: set[str], now_us: int = NOW_US) -> tuple[str, ...]:
    with database.reading() as s:
        return elsewhere(s, here, now_us)


def test_boards_of_the_last_minutes_are_named_and_those_here_are_not(database: Database) -> None:
    see(database, DEVICE, NOW_US)
    see(database, RENTED, NOW_US - 65_000_000)
    assert told(database, {DEVICE.slug}) == ("rtx-4090-1: heard 1 min 5 s ago",)
    assert told(database, {DEVICE.slug}, NOW_US + RECENT_US) == ()


def test_a_board_that_only_waits_is_named_however_long_it_does(
    database: Database, clock: Clock, make_agent: Callable[..., FakeAgent]
) -> None:
    now_us = NOW_US
    with closing(Coordinator(database, catalog.digest(), clock=clock, now_us=lambda: now_us)) as head:
        waiting, _ = make_agent(head, device=RENTED), make_agent(head)
        clock.now += 3600
        now_us += 3_600_000_000
        waiting.renew()
        head.note_boards()
    assert told(database, set(), now_us) == ("rtx-4090-1: heard 0 s ago",)


def test_a_board_that_holds_jobs_is_named_however_long_it_was_silent(
    coordinator: Coordinator, database: Database, make_agent: Callable[..., object]
) -> None:
    agent = make_agent(coordinator)
    assert agent.ask().leases
    with database.reading() as s:
        seen_us = device.devices(s)[0].last_seen_us
    (line,) = told(database, set(), seen_us + 2 * RECENT_US)
    assert line.startswith(f"{DEVICE.slug}: heard ")
    assert line.endswith(", holds jobs")


def test_tokens_that_were_used_and_still_let_in_are_named(database: Database) -> None:
    with database.writing() as s:
        for name in ("idle", "used", "gone"):
            token.create(s, name, devices="*", now_us=1, expires_us=2 * NOW_US)
        for row in token.tokens(s)[1:]:
            token.used(s, row.id, NOW_US)
        token.revoke(s, "gone", NOW_US)
    assert told(database, set()) == ("token used: used 0 s ago",)


def test_what_can_not_be_told_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    url = f"sqlite:///{tmp_path}/farm.db"
    (missing,) = still_there(url, url)
    assert missing.startswith("can't tell what still runs elsewhere: ")
    opened = open_database(url)
    (other,) = still_there(url, "postgresql://farm@db/farm")
    assert other.startswith("it worked on postgresql://farm@db/farm: with --db, ")
    assert still_there(url, label_of(opened)) == ["nothing was heard from elsewhere in the last 15 minutes"]
    see(opened, RENTED, 1 << 60)
    first, second = still_there(url, label_of(opened))
    opened.close()
    assert "cost money" in first
    assert second == "  rtx-4090-1: heard 0 s ago"
