"""The workers at hand: who said hello in this epoch, with which board, and when each was heard last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from db import queue
from farm.wire import worker_of
from workers.protocol import Hello


class Roll:
    """The workers of one coordinator; safe to use from several threads.

    `clock` is monotonic seconds. Who wasn't heard for `ttl_s` is no longer at work, as far as one can tell.
    """

    def __init__(self, clock: Callable[[], float], ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._hellos: dict[str, Hello] = {}  # by worker id
        self._known_as: dict[str, queue.Worker] = {}  # the same, as the queue sees them
        self._joined: dict[str, int] = {}  # worker id -> the newest campaign that knows its device
        self._heard: dict[str, float] = {}  # when each worker called last
        self._put_off: set[str] = set()  # workers that were told to ask later

    def __contains__(self, worker_id: object) -> bool:
        return worker_id in self._hellos

    def enter(self, hello: Hello, joined: int) -> None:
        """Takes a worker in; `joined` is the newest campaign that knows its device."""
        self._joined[hello.worker_id] = joined
        self._known_as[hello.worker_id] = worker_of(hello)
        self._heard[hello.worker_id] = self._clock()
        self._hellos[hello.worker_id] = hello

    def hear(self, worker_id: str) -> Hello:
        """The hello of a worker that calls now."""
        self._heard[worker_id] = self._clock()
        return self._hellos[worker_id]

    def puts_off(self, worker_id: str) -> bool:
        """Whether a worker is to ask later; not twice running, so that no chance leaves one without work."""
        if worker_id in self._put_off:
            self._put_off.discard(worker_id)
            return False
        self._put_off.add(worker_id)
        return True

    def known_as(self, worker_id: str) -> queue.Worker:
        return self._known_as[worker_id]

    def joined(self, worker_id: str) -> int:
        """The newest campaign that knows a worker's device."""
        return self._joined[worker_id]

    def join(self, worker_id: str, campaign_id: int) -> None:
        """Notes the newest campaign that knows a worker's device."""
        self._joined[worker_id] = campaign_id

    def peers(self) -> tuple[queue.Worker, ...]:
        """The workers that are at work now, as far as one can tell."""
        return tuple(self._at_work())

    def has_another(self, hello: Hello) -> bool:
        """Whether another board of a worker's class is at work."""
        mine = hello.device
        others = self._at_work()
        return any(one.device_class == mine.device_class and one.device != mine.slug for one in others)

    def _at_work(self) -> Iterator[queue.Worker]:
        since = self._clock() - self._ttl_s
        return (self._known_as[name] for name in list(self._hellos) if self._heard[name] >= since)

    def on(self, slugs: Set[str]) -> list[str]:
        """The ids of the workers of these boards."""
        return [name for name, hello in list(self._hellos.items()) if hello.device.slug in slugs]

    def rivals(self, hellos: Iterable[Hello]) -> list[Hello]:
        """The workers that speak for the boards of these and came with other tokens."""
        speakers = {(hello.device.slug, hello.token_id) for hello in hellos}
        slugs = {slug for slug, _ in speakers}
        known = [one for one in list(self._hellos.values()) if one.device.slug in slugs]
        return [one for one in known if (one.device.slug, one.token_id) not in speakers]

    def turn_away(self, slug: str) -> None:
        """Asks a board's workers for another hello, which is refused; what they hold runs out."""
        for worker_id in self.on({slug}):
            self.dismiss(worker_id)

    def dismiss(self, worker_id: str) -> None:
        """As `turn_away`, for one worker."""
        self._hellos.pop(worker_id, None)
