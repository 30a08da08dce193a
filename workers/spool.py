"""Evidence that no coordinator has acknowledged yet, kept on disk so that no crash loses it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from kernels.errors import FarmError
from kernels.evidence import Evidence
from workers import bundle

ROTATE_BYTES = 4 << 20  # a smaller spool isn't worth rewriting


class Spool:
    """One device's evidence on its way to a coordinator; safe to use from several threads.

    It is locked as long as it is open, so that no two agents share a board.
    """

    def __init__(self, path: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        """Opens the spool, lines of an agent that died pending again; FarmError if another agent has it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._mutex = threading.Lock()  # of what is known
        self._disk = (
            threading.Lock()
        )  # of the file's identity: syncing takes long, and must not stop append()
        self._guard = _locked(path.with_suffix(".lock"))
        self._writer = bundle.Writer(path)
        self.torn = self._writer.found.torn
        self._pending = {item.evidence_id: item for item in self._writer.found.evidence}
        self._lines = len(self._pending)  # in the file, forgotten ones included

    def append(self, evidence: Evidence) -> None:
        """Writes one line; it is pending from here on, and on disk before pending() hands it out."""
        with self._mutex:
            self._writer.append(evidence)
            self._pending[evidence.evidence_id] = evidence
            self._lines += 1

    def pending(self) -> tuple[Evidence, ...]:
        """What is to be sent, oldest first; all of it is on disk."""
        with self._disk:
            with self._mutex:
                waiting = tuple(self._pending.values())
            if waiting:
                self._writer.sync()
            return waiting

    def attempts(self) -> tuple[str, ...]:
        """The attempts whose evidence is pending."""
        with self._mutex:
            return tuple(evidence.attempt_id for evidence in self._pending.values())

    @property
    def waiting(self) -> int:
        """How many lines are pending."""
        return len(self._pending)

    def acknowledge(self, evidence_ids: Iterable[str]) -> None:
        """Forgets lines that are stored for good; a large file shrinks once most of it is forgotten."""
        with self._disk, self._mutex:
            for evidence_id in evidence_ids:
                self._pending.pop(evidence_id, None)
            if self._path.stat().st_size > self._rotate_bytes and 2 * len(self._pending) < self._lines:
                self._rotate()

    def close(self) -> None:
        """Leaves only what is pending on disk."""
        with self._disk, self._mutex:
            self._rotate()
            self._writer.close()
            os.close(self._guard)

    def _rotate(self) -> None:
        """Writes the pending lines to a new file that takes the old one's place at once."""
        new = self._path.with_suffix(".new")
        with new.open("w", encoding="ascii") as file:
            file.writelines(bundle.lines(self._pending.values()))
            file.flush()
            os.fsync(file.fileno())
        self._writer.close()
        os.replace(new, self._path)
        bundle.sync_folder(self._path.parent)
        self._lines = len(self._pending)
        self._writer = bundle.Writer(self._path)


def _locked(path: Path) -> int:
    """An open descriptor that holds the lock on a file; FarmError if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise FarmError(f"{path}: another agent works for this board; stop it first") from None
    return descriptor
