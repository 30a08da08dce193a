"""What runs a board's cases: a slot that its backend brings, or a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, runtime_checkable

from workers.agent import Slot
from workers.backend import backend
from workers.board_lock import BoardLock
from workers.isolate import Isolated


@runtime_checkable
class BringsSlot(Protocol):
    """A backend that isolates what may fail by itself."""

    def slot(self) -> Slot: ...


def slot_maker(backends: Iterable[str], lock: BoardLock) -> Callable[[], Slot]:
    """How an agent for these backends makes a slot on the board that it has locked."""
    own = (found.slot for name in backends if isinstance(found := backend(name), BringsSlot))
    return next(own, partial(Isolated, holds=lock.descriptor))
