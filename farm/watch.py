"""Shows what is going on in a terminal, again and again, until it is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from db.activity import Version, cells_version, work_version
from db.session import Database
from farm.activity import Activity, read_activity
from farm.held import Holder
from farm.matrix import Matrix
from farm.watch_frame import Known, frame, heading, known
from workers import thermometer
from workers.clock import wall_clock

EVERY_S = 2.0  # between two looks, or more where looking is costly
SHARE = 0.03  # of a core that looking and drawing may take
MATRIX_SHARE = 0.02  # of a core for reading the matrix again, in a thread of its own
GoesOn = Callable[[], bool]


class Watch:
    """Looks at a database and shows what it sees on a console."""

    def __init__(self, database: Database, out: Console, glob: str | None = None) -> None:
        self._database = database
        self._out = out
        self._glob = glob
        self._holder = Holder(database, MATRIX_SHARE)
        self._wake = threading.Event()  # set when the terminal's size has changed
        self._known: tuple[Matrix, tuple[int, int], Known] | None = None  # of a matrix and a size

    def run(self, goes_on: GoesOn = lambda: True) -> None:
        """Ends at Ctrl-C. Where nothing can be drawn over, one plain block a change."""
        try:
            self._holder.now()  # the first reading isn't what the first rest is for
            if self._out.is_terminal and not self._out.is_dumb_terminal:
                self._redraw(goes_on)
            else:
                self._append(goes_on)
        except KeyboardInterrupt:
            return

    def _redraw(self, goes_on: GoesOn) -> None:
        with Live(console=self._out, screen=True, auto_refresh=False) as live, self._woken_by_resizing():
            for _ in self._turns(goes_on):
                size = self._out.size
                live.update(frame(*self._look(size), *size), refresh=True)

    def _append(self, goes_on: GoesOn) -> None:
        shown: Version | None = None
        for _ in self._turns(goes_on):
            now = self._version()
            if now == shown:
                continue
            shown = now
            activity, seen = self._look((self._out.width, 0))
            self._out.print(heading(activity))
            self._out.print(frame(activity, seen, self._out.width, 0))
            self._out.print()
            self._out.file.flush()

    def _look(self, size: tuple[int, int]) -> tuple[Activity, Known]:
        matrix = self._holder.now().matrix
        if self._known is None or self._known[0] is not matrix or self._known[1] != size:
            mine = matrix.of_device(self._glob) if self._glob else matrix
            self._known = matrix, size, known(mine, *size)
        with self._database.reading() as s:
            activity = read_activity(s, wall_clock(), thermometer.celsius())
        return activity, self._known[2]

    def _version(self) -> Version:
        with self._database.reading() as s:
            return (*work_version(s), *cells_version(s))

    def _turns(self, goes_on: GoesOn) -> Iterator[None]:
        """One turn after another, as far apart as what they cost asks for."""
        while goes_on():
            used_s = time.thread_time()
            yield
            self._wake.wait(pause_s(time.thread_time() - used_s))
            self._wake.clear()

    @contextmanager
    def _woken_by_resizing(self) -> Iterator[None]:
        before = signal.signal(signal.SIGWINCH, lambda *_: self._wake.set())
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)


def pause_s(used_s: float) -> float:
    """How long to rest after a turn that took so much of a core."""
    return max(EVERY_S, used_s / SHARE)
