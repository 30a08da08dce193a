"""What every room's tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, started


def pytest_configure() -> None:
    """In the background of a script tests ignore Ctrl-C, and so would whatever they start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Started when the first test asks for it."""
    with started() as server:
        yield server
