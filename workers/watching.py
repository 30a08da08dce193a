"""Watches a board from the process that outlives the child: asked before a hang or a death is a kernel's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from kernels.errors import FarmError
from kernels.model import Device
from workers.backend import backend

T = TypeVar("T")
Trouble = Callable[[], str]  # a fault of the board's own, in words; empty where none is known
ANSWER_S = 10.0  # a driver that has lost its board may never answer


@runtime_checkable
class Watches(Protocol):
    """A backend whose boards tell of faults of their own."""

    def watch(self, device: Device) -> Trouble:
        """Begins now: what was there before isn't told."""


def watch(name: str, device: Device) -> Trouble:
    """What tells of the board's faults from now on: nothing, where the backend isn't known here or can't."""
    try:
        found = backend(name)
    except FarmError:
        return untroubled
    return in_time(found.watch, device) or mute if isinstance(found, Watches) else untroubled


def untroubled() -> str:
    return ""


def mute() -> str:
    return f"the driver says nothing of the board within {ANSWER_S:g} s"


def ask(trouble: Trouble) -> str:
    """The board's trouble; that nothing is said of it in time is one."""
    told = in_time(trouble)
    return mute() if told is None else told


def in_time(call: Callable[..., T], *given: object) -> T | None:
    """What a call gives, or None where that takes too long; its thread is then left alone."""
    answer: list[T] = []
    thread = threading.Thread(target=lambda: answer.append(call(*given)), name="watch", daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    return answer[0] if answer else None
