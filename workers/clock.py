"""The clock that dates what is kept."""

from __future__ import annotations

import time


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000
