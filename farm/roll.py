"""The workers at hand: who said hello in this epoch, with which board, and when each was heard last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from db import queue
from farm.wire import worker_of
from kernels.model import Device
from workers.boards import Board
from workers.machine import MACHINE
from workers.protocol import Hello

SILENT = 20  # times as long as a lease holds: a worker that says nothing for so long is forgotten


@dataclass
class Known:
    """A worker that said hello."""

    hello: Hello
    worker: queue.Worker  # the same, as the queue sees it
    joined: int  # the newest campaign that knows its device
    heard_s: float  # when it called last
    is_away: bool = False  # turned away, until it says hello again
    was_put_off: bool = False  # told to ask later


class Roll:
    """The workers of one coordinator; safe to use from several threads.

    `clock` is monotonic seconds. Who wasn't heard for `ttl_s` is no longer at work, as far as one can tell.
    """

    def __init__(self, clock: Callable[[], float], ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._known: dict[str, Known] = {}  # by worker id
        self._entering = threading.Lock()

    def __contains__(self, worker_id: object) -> bool:
        known = self._known.get(str(worker_id))
        return known is not None and not known.is_away

    def __len__(self) -> int:
        return len(self._known)

    def enter(self, hello: Hello, joined: int) -> str:
        """Takes a worker in, unless its board is elsewhere: then why not.

        `joined` is the newest campaign that knows its device.
        """
        with self._entering:
            if reason := self.elsewhere(hello):
                return reason
            self._known[hello.worker_id] = Known(hello, worker_of(hello), joined, self._clock())
        return ""

    def elsewhere(self, hello: Hello) -> str:
        """Why a worker's board can't be where it is: it is at work on another host; empty if it can."""
        board = hello.device
        boots = {one.boot for one in self.hellos() if one.device.slug == board.slug}
        if not hello.boot or boots <= {"", hello.boot} or Board(board, hello.backends).compiles_only:
            return ""
        return (
            f"board {board.slug} is at work on another host; where both are copies of one image, start this "
            f"one with {MACHINE}=NAME, which makes it a board of its own"
        )

    def hear(self, worker_id: str) -> Known | None:
        """A worker that calls now; None for one that has to say hello first."""
        known = self._known.get(worker_id)
        if known is None or known.is_away:
            return None
        known.heard_s = self._clock()
        return known

    def puts_off(self, known: Known) -> bool:
        """Whether a worker is to ask later; not twice running, so that no chance leaves one without work."""
        known.was_put_off = not known.was_put_off
        return known.was_put_off

    def peers(self) -> tuple[queue.Worker, ...]:
        """The workers that are at work now, as far as one can tell."""
        return tuple(one.worker for one in self._at_work())

    def hellos(self) -> list[Hello]:
        """What the peers said of themselves."""
        return [one.hello for one in self._at_work()]

    def boards(self) -> tuple[Device, ...]:
        """Those of the peers, each once."""
        return tuple({hello.device.slug: hello.device for hello in self.hellos()}.values())

    def has_another(self, hello: Hello) -> bool:
        """Whether another board of a worker's class is at work."""
        mine = hello.device
        others = (one.worker for one in self._at_work())
        return any(one.device_class == mine.device_class and one.device != mine.slug for one in others)

    def _at_work(self) -> Iterator[Known]:
        since = self._clock() - self._ttl_s
        return (one for one in self._here() if one.heard_s >= since)

    def _here(self) -> list[Known]:
        return [one for one in list(self._known.values()) if not one.is_away]

    def on(self, slugs: Set[str]) -> list[str]:
        """The ids of the workers of these boards."""
        return [one.hello.worker_id for one in self._here() if one.hello.device.slug in slugs]

    def rivals(self, hellos: Iterable[Hello]) -> list[Hello]:
        """The workers that speak for the boards of these and came with other tokens."""
        speakers = {(hello.device.slug, hello.token_id) for hello in hellos}
        slugs = {slug for slug, _ in speakers}
        there = [one.hello for one in self._here() if one.hello.device.slug in slugs]
        return [one for one in there if (one.device.slug, one.token_id) not in speakers]

    def turn_away(self, slug: str) -> None:
        """Asks a board's workers for another hello, which is refused; what they hold runs out."""
        for worker_id in self.on({slug}):
            self.dismiss(worker_id)

    def dismiss(self, worker_id: str) -> None:
        """As `turn_away`, for one worker."""
        if known := self._known.get(worker_id):
            known.is_away = True

    def forget(self, holds: Callable[[str], bool]) -> list[str]:
        """Forgets the workers that were silent for long and hold nothing; their ids."""
        since = self._clock() - SILENT * self._ttl_s
        silent = [name for name, one in list(self._known.items()) if one.heard_s < since and not holds(name)]
        for name in silent:
            self._known.pop(name, None)
        return silent
