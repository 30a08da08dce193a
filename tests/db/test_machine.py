"""The queue against its model, on both databases; and the machine against faults planted in the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.exc import IntegrityError

from db import attempt, loss, outcome, queue, second
from db.session import Database, open_database
from tests.db.machine import Machine

SETTINGS = settings(
    max_examples=15,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what is found is read from the log of its steps, shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)


def drive(database: Database, examples: int) -> None:
    """Runs the machine on a database; its first commits need not outlive a power cut."""
    if database.is_sqlite:
        connection = database.engine.raw_connection()
        connection.cursor().execute("PRAGMA synchronous=OFF")
        connection.close()  # back to the pool, which has this one alone
    machine = type("MachineHere", (Machine,), {"database": database})
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=examples))


def test_the_queue_does_what_its_model_does(database: Database) -> None:
    drive(database, examples=15)


def leased_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leased job goes on waiting."""
    monkeypatch.setattr(queue, "set_jobs", lambda *args, **values: None)


def decided_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late line decides and is folded again."""
    monkeypatch.setattr(outcome.Jobs, "_why_undecided", lambda self, line, row, new: "")


def blamed_unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was never started is charged, too."""

    def all_started(s: Any, where: Any) -> Any:
        s.exec_driver_sql("UPDATE attempt SET state = 'started', started_us = 1 WHERE state = 'leased'")
        return attempt.live_rows(s, where)

    monkeypatch.setattr(loss, "live_rows", all_started)


def crash_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One crash is the kernel's."""
    monkeypatch.setattr(outcome, "CRASHES", 1)


def same_board_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost job comes back to the board that lost it."""
    plain = attempt.requeue
    monkeypatch.setattr(loss, "requeue", lambda s, rows, now_us, avoid=False: plain(s, rows, now_us))


def cancelled_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of a cancelled campaign waits again when its worker is lost."""

    def requeue(s: Any, rows: Any, now_us: int, avoid: bool = False) -> tuple[int, ...]:
        ids = tuple(row.job_id for row in rows)
        queue.set_jobs(s, ids, state="waiting")
        return ids

    monkeypatch.setattr(loss, "requeue", requeue)
    monkeypatch.setattr(outcome, "requeue", requeue)


def looks_again_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board that passed first may run the second look, too."""
    monkeypatch.setattr(second, "replace", lambda needs, other_than: replace(needs, other_than="nobody"))


FAULTS = [
    looks_again_itself,
    leased_twice,
    decided_twice,
    blamed_unstarted,
    crash_believed_at_once,
    same_board_again,
    cancelled_runs_on,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/farm.db")
    fault(monkeypatch)
    with pytest.raises((AssertionError, IntegrityError)) as found:
        drive(database, examples=60)
    assert "Failing test case" in "".join(found.value.__notes__)
    database.close()
