"""The only leaser: answers the four calls over the database, under one epoch and by its own clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from db import campaign, device, pack, queue, trust
from db.campaign import CampaignRow
from db.epoch import demand_epoch, raise_epoch
from db.loss import Losses, lose
from db.outcome import Outcome, complete_many
from db.session import Database, Session
from farm import admission, limits
from farm.admission import Joined
from farm.campaign import deadline_s
from farm.exam import Examiner, Result, is_question
from farm.known_inputs import KnownInputs
from farm.making import Making
from farm.metrics import Figures
from farm.recorder import Recorder
from farm.roll import Known, Roll
from farm.second_looks import SecondLooks
from farm.settle import settle
from farm.terms import Term, Terms
from farm.wire import lease_of
from farm.writer import Answer, Joint, Steps, Writer
from kernels.evidence import Evidence
from workers import protocol
from workers.clock import wall_clock
from workers.exam import exam_catalog
from workers.packs import shipped
from workers.protocol import (
    Acknowledged,
    Ask,
    Complete,
    Fetch,
    Fetched,
    Hello,
    Leases,
    Renew,
    Renewed,
    Welcome,
)

TTL_S = 6.0
RETRY_AFTER_S = 0.5  # a worker that found nothing asks again, since another's lease may come back
LEFT_OVER_S = 3600.0  # for what was leased in the epoch before, whose deadlines nobody noted
LOOK_S = 1.0  # between two looks at what was cancelled
LIMITS_S = 5.0  # between looks at what campaigns may take
FLUSH_S = 0.5  # that what workers began may wait for somebody else's transaction
BEHIND = 128  # works that wait for the writer: from then on whoever asks for jobs is told to ask later
MOST_RETRY_S = 5.0
MOST_BEGUN = 4096  # attempts that one transaction notes as started
PATIENCE = 2.0  # a lease is taken back after so many times the deadlines of all that its worker holds


class Coordinator:
    """workers.protocol.Coordinator over one database; safe to call from several threads.

    Every call is made of steps that wait for the writer, so that a thread or an event loop may follow them.
    `clock` is monotonic seconds and decides when a lease has expired; `now_us` dates what is stored.
    """

    def __init__(
        self,
        database: Database,
        catalog_digest: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_us: Callable[[], int] = wall_clock,
        ttl_s: float = TTL_S,
        examiner: Examiner | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`examiner` has boards prove themselves before they get jobs; None trusts those of this machine.

        `recorder` counts and logs what happens; one of its own unless given.
        """
        self._database = database
        self._catalog_digest = catalog_digest
        self._clock = clock
        self._now_us = now_us
        self._ttl_s = ttl_s
        self._examiner = examiner
        self._roll = Roll(clock, ttl_s)
        self._second_looks = SecondLooks()
        self._making = Making(self._roll, self._second_looks)
        self.recorder = recorder or Recorder()
        self._terms = Terms()
        self._looked_s = self._flushed_s = self._limited_s = self._forgot_s = clock()
        self._inputs = KnownInputs()
        self._writer = Writer(database, self.recorder.committed, self._write_down)
        self.epoch, held = self._writer.do(self._begin)
        # Leases of the epoch before may belong to workers that still run: each gets one full TTL to say so.
        term = Term("", 0, clock() + ttl_s, clock() + LEFT_OVER_S)
        self._terms.hold(dict.fromkeys(held, term))
        self.recorder.began(self.epoch, len(held), self.figures)

    def _begin(self, s: Session) -> tuple[int, list[str]]:
        return raise_epoch(s, self._now_us()), [held.attempt_id for held in queue.live(s)]

    def hello(self, message: Hello) -> Welcome:
        return self._writer.follow(self.hello_steps(message))

    def lease(self, message: Ask) -> Leases:
        return self._writer.follow(self.lease_steps(message))

    def renew(self, message: Renew) -> Renewed:
        return self._writer.follow(self.renew_steps(message))

    def complete(self, message: Complete) -> Acknowledged:
        return self._writer.follow(self.complete_steps(message))

    async def answer(self, message: Any) -> Any:
        """The answer to a message of workers.protocol, without a thread that waits for the writer."""
        return await self._writer.follow_later(self.steps(message))

    async def answer_apart(self, message: Any) -> Any:
        """As `answer`, for a loop that others share: what isn't waiting is done in threads."""
        return await self._writer.follow_apart(self.steps(message))

    def steps(self, message: Any) -> Steps[Any]:
        """What the answer to a message is made of."""
        made: dict[type, Callable[[Any], Steps[Any]]] = {
            Hello: self.hello_steps, Ask: self.lease_steps, Renew: self.renew_steps,
            Complete: self.complete_steps, Fetch: self.fetch_steps,
        }  # fmt: skip
        return made[type(message)](message)

    def hello_steps(self, message: Hello) -> Steps[Welcome]:
        """Takes a worker in and makes the jobs that open campaigns want of its device; or says why not."""
        with self._database.reading() as s:
            reason = admission.refusal(s, message, self._catalog_digest)
        reason = reason or self._roll.elsewhere(message)
        joined = Joined(reason) if reason else (yield Joint(self._join, message))
        if refusal := joined.refusal or self._roll.enter(message, joined.campaign_id):
            self.recorder.refused(message, refusal)
            return Welcome(False, refusal, self.epoch, self._ttl_s)
        if self._examiner:
            self._examiner.join(message.worker_id)
        self.recorder.joined(message)
        return Welcome(True, "", self.epoch, self._ttl_s)

    def lease_steps(self, message: Ask) -> Steps[Leases]:
        """Waiting jobs for the worker's device, from now on; at a second try while the writer is behind."""
        known = self._known(message.worker_id, message.epoch)
        hello = known.hello
        if (waiting := self._writer.waiting) >= BEHIND and self._roll.puts_off(known):
            return Leases((), min(MOST_RETRY_S, 2 * RETRY_AFTER_S * waiting / BEHIND), drained=False)
        yield from self._reap_steps()
        if self._examiner and self._examiner.is_due(hello):
            questions = self._examiner.ask(hello)
            return Leases(questions, 0.0 if questions else RETRY_AFTER_S, drained=False)
        peers = self._roll.peers()
        leased, owed, known.joined = yield lambda s: self._lease(s, known, message.limit, peers)
        self._date_new(hello.worker_id, leased)
        self.recorder.leased(hello, leased)
        return Leases(tuple(map(lease_of, leased)), 0.0 if leased else RETRY_AFTER_S, drained=not owed)

    def renew_steps(self, message: Renew) -> Steps[Renewed]:
        """Extends the leases that are still this worker's and notes what it began, both in memory.

        What it gives back is written at once: others wait for it.
        """
        self._known(message.worker_id, message.epoch)
        yield from self._reap_steps()
        self._look()
        started, returned = self._terms.held(message.started), self._terms.held(message.returned)
        self._terms.begin(started)
        if returned:
            yield lambda s: queue.give_back(s, self.epoch, returned, self._now_us())
        self.recorder.noted(message.worker_id, started, returned)
        self._drop(returned)
        gone = self._terms.renew(message.held, self._clock() + self._ttl_s)
        questions = self._examiner.held(message.worker_id) if self._examiner else set()
        return Renewed(tuple(attempt for attempt in gone if attempt not in questions))

    def complete_steps(self, message: Complete) -> Steps[Acknowledged]:
        """Stores the lines, late ones too; a lease ends when its line spoke for it.

        Answers to an exam are no evidence: they are taken out, and a board that fails is set aside.
        """
        hello = self._known(message.worker_id, message.epoch).hello
        lines = tuple(line for line in message.evidence if not is_question(line.attempt_id))
        if self._examiner and (result := self._examiner.take(message.worker_id, message.evidence)):
            yield lambda s: self._examined(s, hello, result)
            self.recorder.examined(hello, result)
        if lines:
            outcomes = yield Joint(self._complete, (hello, lines))
            self.recorder.completed(hello, lines, outcomes)
            told = zip(lines, outcomes, strict=True)
            self._drop(line.attempt_id for line, outcome in told if outcome.job_id is not None)
        if self._examiner:
            self._examiner.count(message.worker_id, len(lines))
        return Acknowledged(tuple(line.evidence_id for line in message.evidence))

    def fetch(self, message: Fetch) -> Fetched:
        return self._writer.follow(self.fetch_steps(message))

    def fetch_steps(self, message: Fetch) -> Steps[Fetched]:
        """The content of a catalog; FarmError where the database has none of that address."""
        yield from ()  # it only reads
        self._known(message.worker_id, message.epoch)
        with self._database.reading() as s:
            exam = exam_catalog().pack
            content = exam.to_bytes() if message.address == exam.address else pack.get(s, message.address)
        return Fetched(shipped(content))

    def reap(self) -> None:
        """Takes back the leases that nobody renewed in time, and those held for too long all the same."""
        self._writer.follow(self._reap_steps())

    def _reap_steps(self) -> Steps[None]:
        now = self._clock()
        silent, stuck = self._terms.expire(now)
        for expired, reason in (
            (silent, f"its worker was silent for {self._ttl_s:g} s"),
            (stuck, f"its worker held it for {PATIENCE:g} times the deadlines of all that it held"),
        ):
            if expired:
                losses = yield partial(self._lose, expired=expired, reason=reason)
                self.recorder.missed(expired, reason, losses)
        if now - self._forgot_s >= self._ttl_s:
            self._forgot_s = now
            self._forget()
        if now - self._flushed_s >= FLUSH_S and self._terms.began:
            self._flushed_s = now
            yield lambda s: None
        if now - self._limited_s >= LIMITS_S:
            self._limited_s = now
            with self._database.reading() as s:
                standings = limits.standings(s, self._now_us(), self.epoch)
            self.recorder.warned({number: one.warning for number, one in standings.items() if one.warning})
            if past := {number: one.why for number, one in standings.items() if one.why}:
                yield lambda s: limits.stop(s, past, self._now_us())
                self.recorder.stopped(past)

    def tick(self) -> int:
        """Takes back silent workers' leases and turns away who was set aside; the epoch.

        db.epoch.StaleEpoch where another head has begun.
        """
        self.reap()
        self._writer.do(self._tick)
        return self.epoch

    def progress(self, campaign_id: int) -> CampaignRow:
        """How far a campaign is; expired leases are taken back first."""
        self.reap()
        with self._database.reading() as s:
            return campaign.campaign_row(s, campaign_id)

    def figures(self) -> Figures:
        """What is held and waits at this moment."""
        return Figures(self.epoch, len(self._terms), len(self._roll.boards()), self._writer.waiting)

    def note_boards(self) -> None:
        """Dates the boards that are heard now: of one that waits no line says so."""
        seen = [(board, self._now_us()) for board in self._roll.boards()]
        self._writer.do(lambda s: device.see_all(s, seen))

    def close(self) -> None:
        self._writer.close()

    def _known(self, worker_id: str, epoch: int) -> Known:
        """A worker that said hello; StaleEpoch asks others for one."""
        known = self._roll.hear(worker_id) if epoch == self.epoch else None
        if known is None:
            raise protocol.StaleEpoch(f"epoch {epoch} is over, {self.epoch} has begun; say hello again")
        return known

    def _forget(self) -> None:
        """Forgets the workers that were silent for long: each life of an agent has an id of its own."""
        silent = self._roll.forget(self._terms.has)
        if self._examiner:
            self._examiner.forget(silent)

    def _date_new(self, worker_id: str, leased: Iterable[queue.Leased]) -> None:
        """Dates leases from now; what the worker holds already comes before them."""
        now = self._clock()
        needed_s = sum(deadline_s(lease.case, lease.bench) for lease in leased)
        latest = self._terms.latest_of(worker_id, now) + PATIENCE * needed_s + self._ttl_s
        until = now + self._ttl_s
        terms = {one.attempt_id: Term(worker_id, one.campaign_id, until, latest) for one in leased}
        self._terms.hold(terms)

    def _drop(self, attempts: Iterable[str]) -> None:
        attempts = tuple(attempts)
        self._terms.drop(attempts)
        self.recorder.dropped(attempts)

    def _look(self) -> None:
        """Drops the leases that ended with their campaign, which somebody else cancelled."""
        now = self._clock()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            with self._database.reading() as s:
                if mine := self._terms.of_campaigns(campaign.cancelled(s)):
                    self._drop(queue.ended(s, mine))

    def _write_down(self, s: Session) -> Answer:
        """Goes ahead of every transaction: what workers began since the last one."""
        began = self._terms.began[:MOST_BEGUN]
        if began:
            queue.start(s, self.epoch, began, self._now_us())
        return partial(self._terms.written, began)

    def _join(self, s: Session, hellos: Sequence[Hello]) -> list[Joined]:
        """Takes the devices in and makes their jobs; turns away who may speak for them no longer."""
        demand_epoch(s, self.epoch)
        refusals = admission.admit(s, hellos, self._now_us())
        admitted = [hello for hello, reason in zip(hellos, refusals, strict=True) if not reason]
        for rival in self._roll.rivals(admitted):
            if admission.unentitled(s, rival, self._now_us()):
                self._roll.dismiss(rival.worker_id)
        newest = self._making.jobs(s, admitted, 0, self._now_us())
        return [Joined(reason, newest) for reason in refusals]

    def _lease(
        self, s: Session, known: Known, limit: int, peers: tuple[queue.Worker, ...]
    ) -> tuple[tuple[queue.Leased, ...], bool, int]:
        """What the worker gets, whether any open job of its class is left, and the newest campaign it knows.

        A campaign that was submitted since makes its jobs for the worker's device first.
        """
        demand_epoch(s, self.epoch)
        joined = self._making.jobs(s, [known.hello], known.joined, self._now_us())
        leased = queue.lease(s, self.epoch, known.worker, limit, self._now_us(), peers)
        if not leased and self._second_looks.are_open:
            self._second_looks.withdraw(s, peers, self._now_us())
            campaign.close_finished(s, self._now_us())
        owed = bool(leased) or self._second_looks.are_open or queue.owes(s, known.worker)
        return leased, owed, joined

    def _lose(self, s: Session, expired: list[str], reason: str) -> Losses:
        losses = lose(s, self.epoch, expired, self._now_us(), reason)
        campaign.close_finished(s, self._now_us())
        return losses

    def _complete(
        self, s: Session, sent: Sequence[tuple[Hello, tuple[Evidence, ...]]]
    ) -> tuple[tuple[Outcome, ...], ...]:
        """Takes the lines of several workers in at once; each worker's outcomes."""
        self._heed(s)
        for hello, _ in sent:
            if hello.worker_id not in self._roll:  # its board was set aside, perhaps while this waited
                raise protocol.StaleEpoch(f"{hello.device.slug} is set aside; say hello again")
        lines = [line for _, some in sent for line in some]
        outcomes = iter(complete_many(s, self.epoch, lines, self._now_us()))
        told = tuple(tuple(islice(outcomes, len(some))) for _, some in sent)
        kept = [line for line, one in zip(lines, chain(*told), strict=True) if one.kept]
        self._inputs.remember(s, kept)
        for (hello, some), mine in zip(sent, told, strict=True):
            several = self._roll.has_another(hello)
            if several:
                self._second_looks.ask(s, some, mine)
            if self._examiner or several:
                self._settle(
                    s,
                    [line for line, outcome in zip(some, mine, strict=True) if outcome.new and outcome.kept],
                )
        campaign.close_finished(s, self._now_us())
        return told

    def _examined(self, s: Session, hello: Hello, result: Result) -> None:
        demand_epoch(s, self.epoch)
        trust.note_exam(s, hello.device.slug, result.passed, result.reason, self._now_us())
        if not result.passed:
            self._roll.turn_away(hello.device.slug)

    def _settle(self, s: Session, lines: Iterable[Evidence]) -> None:
        """Turns away the boards that the twin contradicts, and examines those of which it can't tell."""
        settled = settle(s, lines, self._now_us())
        for slug, reason in settled.aside:
            self.recorder.set_aside(slug, reason)
            self._roll.turn_away(slug)
        if self._examiner and settled.unsettled:
            self._examiner.recall(self._roll.on(settled.unsettled))

    def _tick(self, s: Session) -> None:
        demand_epoch(s, self.epoch)
        self._heed(s)

    def _heed(self, s: Session) -> None:
        """Turns away the boards that a person has set aside: a worker that is at work says no hello."""
        for slug in trust.aside(s):
            self._roll.turn_away(slug)
