"""Ctrl-C taken between two steps: raised inside a library's lock, it would leave the lock held for good."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def postponed() -> Iterator[Callable[[], None]]:
    """Ctrl-C is raised where the function given is called, and at the end; one that is ignored stays so."""
    asked = threading.Event()
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def step() -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    if not raises or threading.current_thread() is not threading.main_thread():
        yield step
        return
    signal.signal(signal.SIGINT, lambda number, frame: asked.set())
    try:
        yield step
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    step()
