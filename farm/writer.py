"""One thread that does all the coordinator's writing and commits what waits together."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from db.complaint import DatabaseTrouble
from db.session import Database, Session
from kernels.errors import FarmError

T = TypeVar("T")
Work = Callable[[Session], Any]
Steps = Generator[Work, Any, T]  # yields works, is sent what each returned, and returns the answer
Answer = Callable[[], None]

GROUP = 64  # works in one transaction at most: one commit's fsync for all of them


@dataclass(frozen=True)
class Joint:
    """A work that is done with all of its kind that wait: `do` takes their items, and returns as much."""

    do: Callable[[Session, Sequence[Any]], Sequence[Any]]
    item: Any

    def __call__(self, s: Session) -> Any:
        return self.do(s, [self.item])[0]


@dataclass(frozen=True)
class Step:
    """What steps came to: the next work, or their answer."""

    work: Work | None
    answer: Any = None


def nothing(_: Session) -> Callable[[], None]:
    return lambda: None


class Writer:
    """Callers wait for their own work only; a work that fails undoes itself and none of its neighbours."""

    def __init__(
        self,
        database: Database,
        committed: Callable[[float, int], None] = lambda _seconds, _works: None,
        ahead: Callable[[Session], Answer] = nothing,
    ) -> None:
        """`committed` is told how many seconds a group's transaction took, and of how many works.

        `ahead` goes first in every transaction; what it returns is called once that is committed.
        """
        self._database = database
        self._committed = committed
        self._ahead = ahead
        self._waiting: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def put(self, work: Callable[[Session], T]) -> Future[T]:
        """The future of what `work` returns, set once it is committed."""
        future: Future[T] = Future()
        with self._closing:  # nothing is put behind the end, where nobody would do it
            if self._closed:
                raise FarmError("the coordinator has ended")
            self._waiting.put((work, future))
        return future

    def do(self, work: Callable[[Session], T]) -> T:
        """What `work` returns, after it is committed; raises what it raised."""
        return self.put(work).result()

    def follow(self, steps: Steps[T]) -> T:
        """Does one work after the other and gives the answer."""
        try:
            work = next(steps)
            while True:
                work = steps.send(self.do(work))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def follow_later(self, steps: Steps[T]) -> T:
        """As `follow`, without a thread that waits."""
        try:
            work = next(steps)
            while True:
                work = steps.send(await asyncio.wrap_future(self.put(work)))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def follow_apart(self, steps: Steps[T]) -> T:
        """As `follow_later`, for a loop that mustn't wait for what the steps read and reckon themselves."""
        step = await asyncio.to_thread(_taken, steps, None)
        while step.work is not None:
            done = await asyncio.wrap_future(self.put(step.work))
            step = await asyncio.to_thread(_taken, steps, done)
        answer: T = step.answer
        return answer

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
            answers: list[Answer] = []
            began_s = time.perf_counter()
            try:
                with self._database.writing() as s:
                    answers = [self._ahead(s)]
                    for works in _joined(group):
                        answers += _answers(self._database, s, works)
            except Exception as error:  # noqa: BLE001  # nothing was committed, and everyone is told
                answers = [partial(_tell, future, error) for _, future in group]
            else:
                self._committed(time.perf_counter() - began_s, len(group))
            for answer in answers:
                answer()

    def _group(self) -> list[tuple[Work, Future[Any]]]:
        """Waits for a work and takes those behind it too; empty when the writer is closed."""
        group: list[tuple[Work, Future[Any]]] = []
        while not group or (len(group) < GROUP and not self._waiting.empty()):
            following = self._waiting.get()
            if following is None:
                if group:
                    self._waiting.put(None)
                break
            group.append(following)
        return group


def _taken(steps: Steps[Any], done: Any) -> Step:
    """The next step; `done` is what the work of the last one returned."""
    try:
        return Step(steps.send(done))
    except StopIteration as end:
        return Step(None, end.value)


def _joined(group: Sequence[tuple[Work, Future[Any]]]) -> list[list[tuple[Work, Future[Any]]]]:
    """The works in order, joint ones of a kind together in the place of the first."""
    found: dict[Any, list[tuple[Work, Future[Any]]]] = {}
    for work, future in group:
        kind = work.do if isinstance(work, Joint) else future
        found.setdefault(kind, []).append((work, future))
    return list(found.values())


def _answers(database: Database, s: Session, works: Sequence[tuple[Work, Future[Any]]]) -> list[Answer]:
    """Does works in a savepoint, joint ones at once; the answers are given when the group is committed.

    A file or server in trouble is everyone's: DatabaseTrouble undoes the group.
    """
    first, _ = works[0]
    try:
        with database.explained(), s.begin_nested():
            if isinstance(first, Joint) and len(works) > 1:
                done = first.do(s, [work.item for work, _ in works if isinstance(work, Joint)])
            else:
                done = [first(s)]
    except DatabaseTrouble:
        raise
    except Exception as error:  # noqa: BLE001  # it goes to whoever asked for this work
        if len(works) > 1:  # one of them is at fault, and fails alone
            return [answer for work in works for answer in _answers(database, s, [work])]
        return [partial(_tell, works[0][1], error)]
    return [partial(_tell, future, one) for (_, future), one in zip(works, done, strict=True)]


def _tell(future: Future[Any], done: Any) -> None:
    """Gives an answer to whoever still waits for it."""
    if future.set_running_or_notify_cancel():
        (future.set_exception if isinstance(done, BaseException) else future.set_result)(done)
