"""SIGINT and SIGTERM as a wish that a loop hears."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask for the end; the block then ends by itself."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
