"""One thread that does all the coordinator's writing and commits what waits together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from db.complaint import DatabaseTrouble
from db.session import Database, Session
from kernels.errors import FarmError

T = TypeVar("T")
Work = tuple[Callable[[Session], Any], "Future[Any]"]

GROUP = 64  # works in one transaction at most: one commit's fsync for all of them


class Writer:
    """Callers wait for their own work only; a work that fails undoes itself and none of its neighbours."""

    def __init__(
        self, database: Database, committed: Callable[[float, int], None] = lambda _seconds, _works: None
    ) -> None:
        """`committed` is told how many seconds a group's transaction took, and of how many works."""
        self._database = database
        self._committed = committed
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[Session], T]) -> T:
        """What `work` returns, after it is committed; raises what it raised."""
        future: Future[T] = Future()
        with self._closing:  # nothing is put behind the end, where nobody would do it
            if self._closed:
                raise FarmError("the coordinator has ended")
            self._waiting.put((work, future))
        return future.result()

    @property
    def waiting(self) -> int:
        """Works that nobody has begun."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Finishes what waits, then ends the thread."""
        with self._closing:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while group := self._group():
            answers: list[Callable[[], None]] = []
            began_s = time.perf_counter()
            try:
                with self._database.writing() as s:
                    answers = [_answer(self._database, s, *work) for work in group]
            except Exception as error:  # noqa: BLE001  # nothing was committed, and everyone is told
                answers = [partial(future.set_exception, error) for _, future in group]
            else:
                self._committed(time.perf_counter() - began_s, len(group))
            for answer in answers:
                answer()

    def _group(self) -> list[Work]:
        """Waits for a work and takes those behind it too; empty when the writer is closed."""
        group: list[Work] = []
        while not group or (len(group) < GROUP and not self._waiting.empty()):
            following = self._waiting.get()
            if following is None:
                if group:
                    self._waiting.put(None)
                break
            group.append(following)
        return group


def _answer(
    database: Database, s: Session, work: Callable[[Session], Any], future: Future[Any]
) -> Callable[[], None]:
    """Does one work in a savepoint; the answer is given once the whole group is committed.

    A file or server in trouble is everyone's: DatabaseTrouble undoes the group.
    """
    try:
        with database.explained(), s.begin_nested():
            done = work(s)
    except DatabaseTrouble:
        raise
    except Exception as error:  # noqa: BLE001  # it goes to whoever asked for this work
        return partial(future.set_exception, error)
    return partial(future.set_result, done)
