"""The matrix as it is now, for whoever looks again and again: read when rows changed, and not too often."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from db.activity import Version, cells_version
from db.session import Database
from farm.matrix import Column, Matrix
from farm.reader import read_matrix
from workers.clock import wall_clock

FRESH_S = 0.5  # a version younger than this isn't asked for again
SHORT_S = 0.3  # a reading that takes longer is done beside those who ask
SHARE = 0.2  # of a core that reading may take while rows change all the time


@dataclass(frozen=True)
class Held:
    """A matrix, the version of the rows it was made of, and its columns by place."""

    version: Version
    matrix: Matrix
    columns: dict[tuple[str, str | None, str], Column]


class Holder:
    """Reads the matrix when evidence came in; whoever asks meanwhile gets the one before.

    `share` is how much of a core reading may take: one that took two seconds isn't repeated for ten at 0.2.
    """

    def __init__(
        self, database: Database, share: float = SHARE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._share = share
        self._clock = clock
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._next_s = -FRESH_S
        self._took_s = 0.0
        self._reading = False

    def now(self) -> Held:
        """The newest there is; waits for the first, and for one that is read in a moment."""
        with self._lock:
            if self._held is None or (self._is_due() and self._took_s <= SHORT_S):
                return self._read()
            if self._is_due() and not self._reading:
                self._reading = True
                threading.Thread(target=self._read_beside, name="matrix", daemon=True).start()
            return self._held

    def _is_due(self) -> bool:
        return self._clock() >= self._next_s

    def _read_beside(self) -> None:
        try:
            self._read()
        finally:
            self._reading = False

    def _read(self) -> Held:
        began_s = self._clock()
        with self._database.reading() as s:
            version = cells_version(s)
            if self._held is None or self._held.version != version:
                matrix = read_matrix(s, wall_clock())
                self._held = Held(version, matrix, columns_of(matrix))
                self._took_s = self._clock() - began_s
        self._next_s = self._clock() + max(FRESH_S, (self._clock() - began_s) / self._share)
        return self._held


def columns_of(matrix: Matrix) -> dict[tuple[str, str | None, str], Column]:
    """Columns by (device class, device or None, backend), as cells name them."""
    return {(one.device_class, one.device or None, one.backend): one for one in matrix.columns}
