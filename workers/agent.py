"""The loop that pulls: leases cases for one device, runs them in its slots, and sends what came out."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from kernels.declared.pack import Pack
from kernels.errors import FarmError
from kernels.evidence import Evidence
from kernels.model import Build, Case, Device
from workers import packs
from workers.agent_log import AgentLog
from workers.protocol import (
    Ask,
    Complete,
    Coordinator,
    Fetch,
    Hello,
    Lease,
    Renew,
    StaleEpoch,
    Unreachable,
    Welcome,
)
from workers.request import Request
from workers.runner import new_id
from workers.spool import Spool

BATCH = 32  # leases held at most
SEND_MOST = 64  # evidence lines in one message
SEND_AT = 32  # lines that are sent at once
LINGER_S = 0.25  # between messages while cases run: one costs a coordinator more than many lines in it
GLANCE_S = 0.5  # how often an idle agent looks whether it was asked to stop
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)  # between tries to reach a coordinator that is away


class Slot(Protocol):
    """What runs one case at a time: workers.isolate.Isolated."""

    def start(self) -> None: ...
    def run(self, request: Request, deadline_s: float) -> Evidence: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Summary:
    """How an agent's life ended."""

    ran: int  # cases
    reason: str  # drained, stopped, or the coordinator's refusal
    refused: bool = False


class Agent:
    """One device's worker. `run` ends when the queue is drained, when stopped, or when it isn't accepted.

    The thread that calls `run` talks; every slot has a thread that works, and one more thread renews.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        hello: Hello,
        spool: Spool,
        make_slot: Callable[[], Slot],
        *,
        stays: bool = False,
        batch: int = BATCH,
    ) -> None:
        """`stays` keeps an agent whose queue is drained waiting for the next campaign."""
        self._coordinator = coordinator
        self._hello = hello
        self._log = AgentLog(hello)
        self._spool = spool
        self._make_slot = make_slot
        self._stays = stays
        self._batch = batch
        guard = threading.RLock()  # of all that follows
        self._work_came = threading.Condition(guard)  # slots wait for it
        self._news_came = threading.Condition(guard)  # the thread that talks waits for it
        self._news = False  # of which it hasn't heard yet: a job more or less is none
        self._over = threading.Event()  # the thread that renews waits for it
        self._waiting: deque[Lease] = deque()
        self._running: dict[str, Lease] = {}
        self._started: list[str] = []  # not yet reported
        self._ran = 0
        self._send_at_s = 0.0  # on the monotonic clock: until then lines wait for others
        self._stopping = False
        self._ending = False  # slots take no more
        self._threads: list[Future[None]] = []
        self._welcome: Welcome | None = None
        self._drained = False  # by the last answer, and nothing was sent or lost since
        self._last_full = True  # whether the last answer had all that was asked for
        self._ask_again_s = 0.0
        self._ask_at_s = 0.0  # on the monotonic clock: a coordinator that is behind asks for patience

    @property
    def device(self) -> Device:
        return self._hello.device

    @property
    def is_busy(self) -> bool:
        """Whether it has cases, or lines that nobody has acknowledged."""
        with self._news_came:
            return bool(self._waiting or self._running or self._spool.waiting)

    def stop(self) -> None:
        """Finishes the running cases, gives the others back, and ends."""
        with self._work_came:
            self._stopping = True
            self._work_came.notify_all()
            self._tell()

    def run(self) -> Summary:
        """Works until there is nothing more to do; raises what a slot failed of."""
        if refusal := self._greet():
            return Summary(0, refusal, refused=True)
        if self._welcome is None:
            return Summary(0, "stopped")
        with ThreadPoolExecutor(self.device.slots + 1, thread_name_prefix=self.device.slug) as pool:
            work = [self._work] * self.device.slots
            self._threads = [pool.submit(call) for call in (*work, self._keep_renewing)]
            for thread in self._threads:
                thread.add_done_callback(lambda _: self._tell())
            try:
                refusal = self._talk()
            finally:
                self._end()
                wait(self._threads)
                self._part()
        for thread in self._threads:
            thread.result()
        reason = refusal or ("stopped" if self._stopping else "drained")
        self._log.ended(self._ran, reason)
        return Summary(self._ran, reason, bool(refusal))

    # The thread that talks.

    def _greet(self) -> str:
        """Says hello until somebody answers or stop() is called; why the answer was no, or nothing."""
        tries = 0
        while not self._stopping:
            try:
                welcome = self._coordinator.hello(self._hello)
            except Unreachable as error:
                self._log.away(error)
                self._pause(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
                tries += 1
                continue
            self._welcome, self._drained = welcome, False
            reason = "" if welcome.accepted else welcome.reason or "the coordinator gave no reason"
            self._log.greeted(reason, welcome.epoch)
            return reason
        return ""

    def _talk(self) -> str:
        """Sends evidence and asks for work until done; the reason if the agent is turned away."""
        while not self._is_done():
            try:
                sent = self._is_time_to_send() and self.send()
                asked = self._has_room() and self.ask()
                if not sent and not asked:
                    glance_s = LINGER_S if self._spool.waiting else GLANCE_S
                    self._pause(min(self._ask_again_s or glance_s, glance_s))
            except (StaleEpoch, Unreachable) as error:
                if isinstance(error, Unreachable):
                    self._log.away(error)
                    self._pause(BACKOFF_S[0])
                if refusal := self._greet():
                    return refusal
        return ""

    def send(self) -> bool:
        """Sends the oldest spooled lines; True if any were acknowledged, and so are gone."""
        lines = self._spool.pending()[:SEND_MOST]
        if not lines:
            return False
        worker_id, epoch = self._who()
        answer = self._coordinator.complete(Complete(worker_id, epoch, lines))
        self._spool.acknowledge(answer.evidence_ids)
        self._send_at_s = time.monotonic() + LINGER_S
        self._drained = False  # a line that came late may have brought its job back
        return bool(answer.evidence_ids)

    def ask(self) -> bool:
        """Asks for leases; True if any came. After a short answer it asks for one a slot: the end is near."""
        worker_id, epoch = self._who()
        limit = self._batch if self._last_full else self.device.slots
        answer = self._coordinator.lease(Ask(worker_id, epoch, limit))
        self._log.leased(answer.leases)
        for address in {lease.pack for lease in answer.leases} - {""}:
            self._hold(address)
        with self._news_came:
            self._last_full = len(answer.leases) >= limit
            self._drained = answer.drained and not answer.leases
            self._ask_again_s = answer.retry_after_s
            if answer.retry_after_s > GLANCE_S:
                self._ask_at_s = time.monotonic() + answer.retry_after_s
            self._waiting.extend(answer.leases)
            self._work_came.notify_all()
        return bool(answer.leases)

    def _hold(self, address: str) -> None:
        """Fetches a user's catalog, unless it is here; without it its cases end as ERROR, and say so."""
        if packs.is_kept(address):
            return
        worker_id, epoch = self._who()
        try:
            content = packs.received(self._coordinator.fetch(Fetch(worker_id, epoch, address)).content)
            packs.keep(Pack.from_bytes(content, address), packs.store())
        except (StaleEpoch, Unreachable):
            raise
        except FarmError as error:
            self._log.without_catalog(address, error)
            print(f"workers: catalog {address[:12]} can't be had: {error}", file=sys.stderr, flush=True)

    @property
    def _few(self) -> int:
        """So many waiting leases are enough."""
        return self._batch // 2 if self._last_full else 1

    def _has_room(self) -> bool:
        """Whether it is time for more: early enough that no slot waits for the answer."""
        with self._news_came:
            may_ask = time.monotonic() >= self._ask_at_s
            return may_ask and not self._stopping and len(self._waiting) < self._few

    def _is_time_to_send(self) -> bool:
        """Whether the last message was a while ago, or lines are many, or nothing runs to wait for."""
        with self._news_came:
            idle = not self._waiting and not self._running
        return idle or time.monotonic() >= self._send_at_s or self._spool.waiting >= SEND_AT

    def _is_done(self) -> bool:
        with self._news_came:
            if self._stopping or self._has_failed():
                return True
            idle = not self._waiting and not self._running
        return idle and self._drained and not self._stays and not self._spool.waiting

    def _pause(self, seconds: float) -> None:
        """Waits for news, for so long at most."""
        with self._news_came:
            if not self._stopping and not self._has_failed():
                self._news_came.wait_for(lambda: self._news, seconds)
            self._news = False

    def _has_failed(self) -> bool:
        """Before the end, a thread that is done has failed."""
        return any(thread.done() for thread in self._threads)

    def _tell(self) -> None:
        """Has the thread that talks look at things again, for which one case more or less is no reason."""
        with self._news_came:
            self._news = True
            self._news_came.notify_all()

    def _end(self) -> None:
        with self._work_came:
            self._ending = True
            self._work_came.notify_all()
        self._over.set()

    def _part(self) -> None:
        """Gives back what was never started and sends what is left; the spool keeps what can't be sent."""
        try:
            self.renew()
            while self.send():
                pass
        except (StaleEpoch, Unreachable):
            return

    def _who(self) -> tuple[str, int]:
        assert self._welcome is not None  # nobody speaks before the greeting
        return self._hello.worker_id, self._welcome.epoch

    # The thread that renews.

    def _keep_renewing(self) -> None:
        assert self._welcome is not None  # started behind the greeting
        while not self._ending:
            self._over.wait(self._welcome.ttl_s / 3)
            try:
                if not self._ending:
                    self.renew()
            except (StaleEpoch, Unreachable):
                continue  # the thread that talks finds out by itself, and says hello

    def renew(self) -> None:
        """Tells what is held, started and, at the end, given back; drops what was taken back."""
        worker_id, epoch = self._who()
        with self._news_came:
            returned = tuple(lease.attempt_id for lease in self._waiting) if self._ending else ()
            waiting = () if self._ending else tuple(lease.attempt_id for lease in self._waiting)
            started, self._started = tuple(self._started), []
            held = (*self._running, *waiting, *self._spool.attempts())
        try:
            answer = self._coordinator.renew(Renew(worker_id, epoch, held, started, returned))
        except (StaleEpoch, Unreachable):
            with self._news_came:
                self._started = [*started, *self._started]
            raise
        dropped = {*answer.dropped, *returned}
        with self._news_came:
            lost = [lease for lease in self._waiting if lease.attempt_id in answer.dropped]
            self._waiting = deque(lease for lease in self._waiting if lease.attempt_id not in dropped)
        if lost:
            self._drained = False  # they wait for somebody again
            self._tell()
        self._log.lost(lost)

    # The threads that work.

    def _work(self) -> None:
        with closing(self._make_slot()) as slot:
            slot.start()
            last: Case | None = None
            while lease := self._take(last):
                last = lease.case
                self._log.started(lease)
                line = slot.run(request(lease, self.device), lease.deadline_s)
                self._spool.append(line)
                self._log.ran(lease, line)
                self._finish(lease)
                slot.start()  # before a lease is taken: a slot whose board is retired takes none

    def _take(self, last: Case | None) -> Lease | None:
        """The next lease for a slot that ran `last`, when there is one; None at the end."""
        with self._work_came:
            self._work_came.wait_for(lambda: self._ending or self._stopping or self._waiting)
            if self._ending or self._stopping:
                return None
            lease = choose(self._waiting, last, [held.case for held in self._running.values()])
            self._waiting.remove(lease)
            self._running[lease.attempt_id] = lease
            self._started.append(lease.attempt_id)
            if len(self._waiting) == self._few - 1:
                self._tell()
            return lease

    def _finish(self, lease: Lease) -> None:
        with self._news_came:
            del self._running[lease.attempt_id]
            self._ran += 1
            if self._is_time_to_send():
                self._tell()


def request(lease: Lease, device: Device) -> Request:
    return Request(
        new_id(),
        lease.case,
        lease.backend,
        device,
        lease.repeats,
        lease.rule,
        lease.attempt_id,
        lease.source_digest,
        lease.inputs_digest,
        pack=lease.pack,
        bench=lease.bench,
        packs=str(packs.store()) if lease.pack else "",
    )


def choose(waiting: deque[Lease], last: Case | None, running: list[Case]) -> Lease:
    """A lease whose text the slot has loaded, else one whose text no other slot is at, else the first."""
    mine = text_key(last) if last else None
    taken = {text_key(case) for case in running}
    same = (lease for lease in waiting if text_key(lease.case) == mine)
    fresh = (lease for lease in waiting if text_key(lease.case) not in taken)
    return next(same, None) or next(fresh, None) or waiting[0]


def text_key(case: Case) -> tuple[str, str, tuple[str, ...], Build]:
    """Equal for cases that launch the same compiled texts."""
    return case.op, case.kernel, case.kinds, case.build
