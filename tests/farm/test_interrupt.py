"""Ctrl-C between two steps, and in the middle of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result

from farm.coordinator import Coordinator
from farm.interrupt import postponed


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """What a terminal's program has; a shell's background job ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_raised_at_the_next_step() -> None:
    steps = []

    def walk() -> None:
        with postponed() as step:
            step()
            ctrl_c()
            steps.append("reached")
            step()
            steps.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        walk()
    assert steps == ["reached"]


def test_ctrl_c_behind_the_last_step_is_raised_at_the_end() -> None:
    steps = []

    def walk() -> None:
        with postponed():
            ctrl_c()
            steps.append("last")

    with pytest.raises(KeyboardInterrupt):
        walk()
    assert steps == ["last"]


def test_ctrl_c_is_as_before_behind_it() -> None:
    with postponed():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with postponed() as step:
        ctrl_c()
        step()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_leaves_the_handler_alone() -> None:
    seen: list[Any] = []

    def look() -> None:
        with postponed() as step:
            step()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_a_question_to_the_database_is_answered_before_ctrl_c_counts(
    farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = []

    def progress(coordinator: Coordinator, campaign_id: int) -> Any:
        ctrl_c()
        answered.append(ask(coordinator, campaign_id))
        return answered[-1]

    ask = Coordinator.progress
    monkeypatch.setattr(Coordinator, "progress", progress)
    result = farm("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--backend", "twin", "--local")
    assert result.exit_code == 130
    assert len(answered) == 1


INTERRUPTED_WHILE_LOADING = """
import runpy, sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[2]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
runpy.run_module(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(("command", "module"), [("farm", "click"), ("workers", "workers.command")])
def test_ctrl_c_while_modules_are_loaded_is_one_line(command: str, module: str) -> None:
    words = [sys.executable, "-c", INTERRUPTED_WHILE_LOADING, command, module]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{command}: interrupted\n")
