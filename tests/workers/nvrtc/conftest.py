"""What the compiler's tests share: whether it is installed, and a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.backend import Unavailable
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc


@pytest.fixture(scope="session")
def nvrtc() -> Nvrtc:
    """The installed compiler; skips with its own reason where there is none."""
    try:
        return library.find()
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    return tmp_path / "state"
