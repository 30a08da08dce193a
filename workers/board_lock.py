"""One lock per board of a machine, whatever folder or user an agent works for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernels.errors import FarmError
from kernels.model import Device

BOARDS = ("GPU-", "MIG-")  # how the UUID of what is lent to one agent begins; processors are shared
PATIENCE_S = 2.0  # for the child of an agent that was just killed, which the system ends in a moment
GLANCE_S = 0.05


class BoardLock:
    """Held until closed, and beyond that by every child that was given `descriptor` and lives."""

    def __init__(self, device: Device, folder: Path | None = None) -> None:
        """FarmError, in one line, where another agent works for the board; a processor is nobody's alone."""
        self.descriptor: int | None = None
        if not device.uuid.startswith(BOARDS):
            return
        path = (folder or Path(tempfile.gettempdir())) / lock_name(device)
        self.descriptor = _opened(path)
        if not _locked(self.descriptor):
            self.close()
            raise FarmError(
                f"{device.name} ({device.uuid}): another agent works for this board, or a child of one that "
                f"can't be killed holds it; stop it first ({path})"
            )

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


@contextlib.contextmanager
def held(device: Device) -> Iterator[BoardLock]:
    """The board's lock while in it."""
    lock = BoardLock(device)
    try:
        yield lock
    finally:
        lock.close()


def lock_name(device: Device) -> str:
    return f"kernel-farm-{re.sub('[^A-Za-z0-9-]', '_', device.uuid)}.lock"


def _opened(path: Path) -> int:
    """Open for locking, whoever made the file: a lock needs no right to write."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise FarmError(f"{path}: {error.strerror or error}; remove this lock if no agent runs") from None


def _locked(descriptor: int) -> bool:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(GLANCE_S)
        else:
            return True
