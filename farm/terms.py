"""Until when leases hold, and what workers said they began: kept in memory, so that a heartbeat is no SQL."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Term:
    """Until when a lease holds, on the coordinator's clock."""

    worker_id: str  # empty for one of the epoch before
    campaign_id: int  # 0 for one of the epoch before
    until: float  # later with every renewal
    latest: float  # however often it is renewed


class Terms:
    """The leases of one coordinator; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terms: dict[str, Term] = {}  # by attempt
        self._held: defaultdict[str, set[str]] = defaultdict(set)  # attempts by worker
        self._began: dict[str, None] = {}  # attempts, in the order in which they were reported
        self._first_end = math.inf  # nothing ends before; renewing makes it too early, never too late

    def __len__(self) -> int:
        return len(self._terms)

    def hold(self, terms: dict[str, Term]) -> None:
        with self._lock:
            self._terms |= terms
            for attempt, term in terms.items():
                self._held[term.worker_id].add(attempt)
            ends = (min(term.until, term.latest) for term in terms.values())
            self._first_end = min(self._first_end, *ends, math.inf)

    def latest_of(self, worker_id: str, default: float) -> float:
        """When the last of a worker's leases ends however often it is renewed."""
        with self._lock:
            held = [self._terms[attempt].latest for attempt in self._held.get(worker_id, ())]
        return max(held, default=default)

    def has(self, worker_id: str) -> bool:
        """Whether a worker holds any lease."""
        return worker_id in self._held

    def renew(self, attempts: Iterable[str], until: float) -> tuple[str, ...]:
        """Extends what is held; the others of the attempts."""
        gone = []
        with self._lock:
            for attempt in attempts:
                if term := self._terms.get(attempt):
                    self._terms[attempt] = replace(term, until=until)
                else:
                    gone.append(attempt)
        return tuple(gone)

    def held(self, attempts: Iterable[str]) -> list[str]:
        """Those of the attempts that are held."""
        with self._lock:
            return [attempt for attempt in attempts if attempt in self._terms]

    def drop(self, attempts: Iterable[str]) -> None:
        with self._lock:
            for attempt in attempts:
                self._forget(attempt)

    def _forget(self, attempt: str) -> None:
        if term := self._terms.pop(attempt, None):
            mine = self._held[term.worker_id]
            mine.discard(attempt)
            if not mine:
                del self._held[term.worker_id]

    def of_campaigns(self, campaign_ids: Iterable[int]) -> list[str]:
        """What is held of these campaigns, and of those that nobody noted."""
        among = {0, *campaign_ids}
        with self._lock:
            return [attempt for attempt, term in self._terms.items() if term.campaign_id in among]

    def expire(self, now: float) -> tuple[list[str], list[str]]:
        """Drops what ended: that nobody renewed in time, and that was held too long all the same."""
        if now <= self._first_end:
            return [], []
        with self._lock:
            silent = [attempt for attempt, term in self._terms.items() if term.until < now]
            stuck = [attempt for attempt, term in self._terms.items() if term.latest < now <= term.until]
            for attempt in (*silent, *stuck):
                self._forget(attempt)
            ends = (min(term.until, term.latest) for term in self._terms.values())
            self._first_end = min(ends, default=math.inf)
        return silent, stuck

    def begin(self, attempts: Iterable[str]) -> None:
        """Notes what workers began; somebody writes it down with the next transaction."""
        with self._lock:
            self._began |= dict.fromkeys(attempts)

    @property
    def began(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._began)

    def written(self, attempts: Iterable[str]) -> None:
        """Forgets what was begun and is stored now."""
        with self._lock:
            for attempt in attempts:
                self._began.pop(attempt, None)
