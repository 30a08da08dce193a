"""A cache of its own for each test, and the environment as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One compile cache for the tests of a file: texts are the same ones, but some have a real compiler."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(autouse=True)
def state(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The backend pins its process to a board by the environment, which these tests are given back."""
    before = dict(os.environ)
    monkeypatch.setenv("FARM_STATE", str(compiled))
    yield compiled
    os.environ.clear()
    os.environ.update(before)
