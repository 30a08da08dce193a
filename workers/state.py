"""Where a worker keeps what should outlive it: compile cache, known files, spool."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATE = "FARM_STATE"  # in the environment, which children inherit


def state_folder() -> Path:
    """$FARM_STATE, or .farm in the current folder."""
    return Path(os.environ.get(STATE) or ".farm").absolute()


def compile_cache() -> Path:
    return state_folder() / "cache"


@contextmanager
def leaving_nothing() -> Iterator[Path]:
    """While in it this process and its children have a state folder that is gone afterwards.

    It lies in the one that there is, so that what it is tried on is the same disk.
    """
    before, home = os.environ.get(STATE), state_folder()
    with tempfile.TemporaryDirectory(prefix="trial-", dir=home if home.is_dir() else None) as folder:
        os.environ[STATE] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[STATE]
            else:
                os.environ[STATE] = before
