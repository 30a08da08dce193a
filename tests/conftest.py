"""What every room's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, started


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Started when the first test asks for it."""
    with started() as server:
        yield server
