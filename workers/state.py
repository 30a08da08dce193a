"""Where a worker keeps what should outlive it: compile cache, known files, spool."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """$FARM_STATE, or .farm in the current folder."""
    return Path(os.environ.get("FARM_STATE") or ".farm").absolute()


def compile_cache() -> Path:
    return state_folder() / "cache"
