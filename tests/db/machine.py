"""Drives the queue at random, as workers, operators and restarts do, and holds it to its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from db import campaign, check, device, loss, outcome, queue, second, tables, trust
from db.epoch import StaleEpoch, raise_epoch
from db.evidence import import_lines
from db.job import add_jobs, jobs_of
from db.queue import Leased, Worker
from db.session import Database, Session
from kernels.evidence import Evidence, Rule, Verdict
from kernels.model import Device
from tests.db.making import BOARD, HOST, WORKER, answer, case, planned
from tests.db.model import Campaign, Job, Model

BOARDS = {name: replace(BOARD, slug=name, uuid=name) for name in ("cpu-0", "cpu-1")}
WORKERS = {name: replace(WORKER, worker_id=f"w-{name}", device=name) for name in BOARDS}
VERDICTS = [Verdict.PASS, Verdict.PASS, Verdict.FAIL, Verdict.CRASH, Verdict.ERROR, Verdict.TIMEOUT]
CASES = 6
any_of = st.randoms(use_true_random=False)


class Machine(RuleBasedStateMachine):
    """Calls of db/, each a transaction under the newest epoch, and the model beside them."""

    database: Database  # set by whoever makes a subclass

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.leases: dict[str, Leased] = {}
        self.boards: dict[str, Device] = {}
        self.sent: list[Evidence] = []
        self.arrivals = 0  # of lines, repeats too
        self.now_us = 100
        self.epoch = 0

    def do(self, work: Callable[[Session], Any]) -> Any:
        self.now_us += 1
        with self.database.writing() as s:
            return work(s)

    @initialize(size=st.integers(1, CASES), twice=st.sampled_from([0.0, 0.5, 1.0]))
    def begin(self, size: int, twice: float) -> None:
        """Examples differ in the rules that they have: each gets a campaign, or many would have no job."""

        def empty(s: Session) -> int:
            for table in reversed(tables.metadata.sorted_tables):
                s.execute(sa.delete(table))
            for board in BOARDS.values():
                device.see(s, board, 1)
            return raise_epoch(s, 1)

        self.epoch = self.do(empty)
        self.submit(size, 0, twice)

    # What operators do.

    @rule(size=st.integers(1, CASES), priority=st.integers(0, 1), twice=st.sampled_from([0.0, 0.5, 1.0]))
    def submit(self, size: int, priority: int, twice: float) -> None:
        cases = planned([case(rows) for rows in range(1, size + 1)])
        words: dict[str, Any] = {"selection": "{}", "rule": Rule.BOUND, "priority": priority, "twice": twice}
        made = self.do(
            lambda s: campaign.create(s, planned=cases, targets=[HOST], now_us=self.now_us, **words)
        )
        self.stored(made, priority, twice)

    @precondition(lambda self: any(job.verdict and job.verdict.bad for job in self.model.jobs.values()))
    @rule(random=any_of)
    def retry(self, random: Any) -> None:
        first = random.choice(list(self.model.campaigns))
        jobs = self.do(lambda s: jobs_of(s, first, {v for v in Verdict if v.bad}))
        if jobs:
            again = planned([job.case for job in jobs])
            words: dict[str, Any] = {"selection": "{}", "rule": Rule.BOUND, "retry_of": first}

            def create(s: Session) -> int:
                made = campaign.create(s, planned=again, targets=[], now_us=self.now_us, **words)
                assert add_jobs(s, made, [(job.case_id, HOST) for job in jobs], self.now_us) == len(jobs)
                return made

            self.stored(self.do(create), 0)

    def stored(self, campaign_id: int, priority: int, twice: float = 0.0) -> None:
        self.model.campaigns[campaign_id] = Campaign(priority, twice=twice)
        for job in self.do(lambda s: jobs_of(s, campaign_id)):
            self.model.jobs[job.id] = Job(campaign_id, case_id=job.case_id)

    @precondition(lambda self: self.open_campaigns())
    @rule(random=any_of)
    def pause(self, random: Any) -> None:
        chosen = random.choice(self.open_campaigns())
        self.do(lambda s: campaign.pause(s, chosen, self.now_us))
        self.model.campaigns[chosen].paused = True

    @precondition(lambda self: any(c.paused for c in self.model.campaigns.values()))
    @rule()
    def unpause_all(self) -> None:
        for campaign_id, modelled in self.model.campaigns.items():
            if modelled.paused:
                self.do(lambda s, n=campaign_id: campaign.unpause(s, n))
                modelled.paused = False

    @precondition(lambda self: self.open_campaigns())
    @rule(random=any_of)
    def cancel(self, random: Any) -> None:
        chosen = random.choice(self.open_campaigns())
        cancelled = self.do(lambda s: campaign.cancel(s, chosen, self.now_us))
        assert cancelled == self.model.cancel(chosen)

    def open_campaigns(self) -> list[int]:
        return [n for n, c in self.model.campaigns.items() if not (c.closed or c.cancelled)]

    @precondition(lambda self: any(job.looked for job in self.model.jobs.values()))
    @rule(at_work=st.sets(st.sampled_from(sorted(BOARDS))))
    def withdraw(self, at_work: set[str]) -> None:
        workers = [WORKERS[name] for name in at_work]
        can_look = lambda row: any(queue.can_run(row, worker) for worker in workers)  # noqa: E731
        self.do(lambda s: second.withdraw(s, can_look, self.now_us))
        self.model.withdraw(at_work)

    @precondition(lambda self: self.sent)
    @rule(board=st.sampled_from(sorted(BOARDS)))
    def set_aside(self, board: str) -> None:
        done = self.do(lambda s: trust.set_aside(s, board, "why", self.now_us))
        decided = {n for n, job in self.model.jobs.items() if job.state == "done"}
        self.model.set_aside(board)
        assert {*done.requeued} == {n for n in decided if self.model.jobs[n].state != "done"}

    @precondition(lambda self: self.model.aside)
    @rule(random=any_of)
    def readmit(self, random: Any) -> None:
        board = random.choice(sorted(self.model.aside))
        self.do(lambda s: trust.readmit(s, board, self.now_us))
        self.model.readmit(board, self.now_us)

    # What workers do.

    @precondition(lambda self: self.model.is_wanted())
    @rule(
        board=st.sampled_from(sorted(BOARDS)),
        limit=st.integers(1, 8),
        both=st.booleans(),
        starts=st.booleans(),
    )
    def lease(self, board: str, limit: int, both: bool, starts: bool) -> None:
        if board in self.model.aside:
            return  # the coordinator refuses it
        both = both and not self.model.aside
        peers: tuple[Worker, ...] = tuple(WORKERS.values()) if both else (WORKERS[board],)
        expected = self.model.takeable(board, others=both)[:limit]
        work = lambda s: queue.lease(s, self.epoch, WORKERS[board], limit, self.now_us, peers)  # noqa: E731
        leases = self.do(work)
        assert [leased.job_id for leased in leases] == expected
        for leased in leases:
            self.leases[leased.attempt_id], self.boards[leased.attempt_id] = leased, BOARDS[board]
            self.model.leased(leased.attempt_id, leased.job_id, board)
        if starts:
            self.start_these([leased.attempt_id for leased in leases])

    @precondition(lambda self: self.model.is_wanted())
    @rule(
        board=st.sampled_from(sorted(BOARDS)),
        data=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=4),
    )
    def work(self, board: str, data: list[Verdict]) -> None:
        """Leases, starts and answers, as workers mostly do: apart, these rules seldom meet."""
        before = {*self.leases}
        self.lease(board, len(data), both=False, starts=True)
        fresh = [name for name in self.leases if name not in before]
        self.send([self.line(name, verdict) for name, verdict in zip(fresh, data, strict=False)])

    @precondition(lambda self: self.leases)
    @rule(random=any_of)
    def start(self, random: Any) -> None:
        self.start_these(self.some(random))

    def start_these(self, attempts: list[str]) -> None:
        self.do(lambda s: queue.start(s, self.epoch, attempts, self.now_us))
        self.model.start(attempts)

    @precondition(lambda self: self.leases)
    @rule(random=any_of)
    def give_back(self, random: Any) -> None:
        chosen = self.some(random)
        self.do(lambda s: queue.give_back(s, self.epoch, chosen, self.now_us))
        self.model.give_back(chosen)

    @precondition(lambda self: self.leases)
    @rule(random=any_of)
    def expire(self, random: Any) -> None:
        self.lose(self.some(random))

    @precondition(lambda self: any(attempt.live for attempt in self.model.attempts.values()))
    @rule(board=st.sampled_from(sorted(BOARDS)))
    def vanish(self, board: str) -> None:
        """A board's worker is gone with all that it held."""
        self.lose([name for name, a in self.model.attempts.items() if a.live and a.board == board])

    def lose(self, chosen: list[str]) -> None:
        self.do(lambda s: loss.lose(s, self.epoch, chosen, self.now_us, "gone"))
        self.model.lose(chosen, self.now_us)

    @precondition(lambda self: self.leases)
    @rule(random=any_of, data=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=4))
    def complete(self, random: Any, data: list[Verdict]) -> None:
        """Lines of attempts in any state: in time, late, several at one attempt."""
        self.send([self.line(random.choice(self.some(random)), verdict) for verdict in data])

    @precondition(lambda self: self.leases)
    @rule(random=any_of)
    def import_first(self, random: Any) -> None:
        """A bundle brings a line before its worker can send it."""
        made = self.line(random.choice(list(self.leases)), Verdict.PASS)
        self.do(lambda s: import_lines(s, [made], self.now_us))
        self.model.imported(made.attempt_id, made.evidence_id, made.finished_us, self.now_us)
        self.arrivals += 1
        self.send([made])

    @precondition(lambda self: self.sent)
    @rule(random=any_of)
    def send_again(self, random: Any) -> None:
        repeated = random.sample(self.sent, min(2, len(self.sent)))
        outcomes = self.do(lambda s: outcome.complete_many(s, self.epoch, repeated, self.now_us))
        assert [(o.new, o.decided) for o in outcomes] == [(False, False)] * len(repeated)
        self.arrivals += len(repeated)

    def send(self, lines: list[Evidence]) -> None:
        # The coordinator takes nothing from a board that is set aside.
        lines = [made for made in lines if made.device.slug not in self.model.aside]
        self.do(lambda s: outcome.complete_many(s, self.epoch, lines, self.now_us))
        self.arrivals += len(lines)
        self.sent += lines
        for made in lines:
            about = (made.attempt_id, made.verdict, made.evidence_id, made.finished_us)
            self.model.complete(*about, self.now_us)
        # What passed on one board is asked of another, where it is of its campaign's share.
        told = [self.model.attempts[made.attempt_id].job for made in lines]
        self.do(lambda s: second.ask(s, told))
        self.model.ask(told, second.is_chosen)

    def line(self, attempt_id: str, verdict: Verdict) -> Evidence:
        self.now_us += 1
        board = self.boards[attempt_id]
        return answer(self.leases[attempt_id], verdict, device=board, finished_us=self.now_us)

    def some(self, random: Any) -> list[str]:
        """Attempts, most of them live where there are such."""
        live = [name for name, attempt in self.model.attempts.items() if attempt.live]
        among = live if live and random.random() < 0.8 else list(self.leases)
        return random.sample(among, random.randint(1, min(5, len(among))))

    # What coordinators do.

    @precondition(lambda self: self.leases)
    @rule(reclaims=st.booleans())
    def new_epoch(self, reclaims: bool) -> None:
        """A restart: it keeps what is leased, or takes everything back."""
        older, self.epoch = self.epoch, self.do(lambda s: raise_epoch(s, self.now_us))
        try:
            self.do(lambda s: queue.lease(s, older, WORKER, 1, self.now_us))
            raise AssertionError("an older epoch may write")
        except StaleEpoch:
            pass
        if reclaims:
            self.do(lambda s: loss.reclaim_all(s, self.epoch, self.now_us))
            self.model.lose(self.leases, self.now_us, charged=False)

    @precondition(lambda self: self.open_campaigns())
    @rule()
    def close(self) -> None:
        assert set(self.do(lambda s: campaign.close_finished(s, self.now_us))) == self.model.close()

    # What is true at any time.

    @invariant()
    def jobs_are_as_modelled(self) -> None:
        with self.database.reading() as s:
            job, attempt = tables.job, tables.attempt
            columns = (job.c.id, job.c.state, job.c.verdict, job.c.losses, job.c.crashes)
            found = [tuple(row) for row in s.execute(sa.select(*columns).order_by(job.c.id))]
            states = {row[0]: row[1] for row in s.execute(sa.select(attempt.c.attempt_id, attempt.c.state))}
        wanted = [
            (n, job.state, job.verdict, job.losses, job.crashes) for n, job in sorted(self.model.jobs.items())
        ]
        differing = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
        assert not differing, f"found and wanted: {differing}"
        assert states == {name: attempt.state for name, attempt in self.model.attempts.items()}

    @invariant()
    def the_database_says_one_thing(self) -> None:
        """The check's rules, and what only this machine knows: which line decided, how often each came."""
        crashed = (
            "SELECT job.id FROM job WHERE verdict = 'CRASH' AND 2 >"
            " (SELECT count(DISTINCT attempt.attempt_id) FROM attempt"
            " JOIN evidence ON evidence.attempt_id = attempt.attempt_id"
            " WHERE attempt.job_id = job.id AND evidence.verdict = 'CRASH')"
        )
        blamed = (
            "SELECT job.id FROM job JOIN evidence ON evidence.evidence_id = job.evidence_id"
            " WHERE job.verdict IN ('FAIL', 'CRASH', 'TIMEOUT', 'REJECT') AND evidence.origin <> 'worker'"
        )
        arrived = "SELECT coalesce(sum(copies), 0) FROM evidence WHERE origin <> 'coordinator'"
        with self.database.reading() as s:
            assert check.broken_rules(s) == []
            assert s.exec_driver_sql(crashed).all() == s.exec_driver_sql(blamed).all() == []
            assert s.exec_driver_sql(arrived).scalar_one() == self.arrivals
            job = tables.job
            lines = {row[0]: row[1] for row in s.execute(sa.select(job.c.id, job.c.evidence_id))}
        decided = {n: job.line for n, job in self.model.jobs.items() if job.line}
        assert {n: lines[n] for n in decided} == decided

    def teardown(self) -> None:
        """Whatever happened, every campaign comes to its end, and every job has one verdict."""
        if not self.epoch:
            return
        self.unpause_all()
        for board in sorted(self.model.aside):
            self.do(lambda s, slug=board: trust.readmit(s, slug, self.now_us))
            self.model.readmit(board, self.now_us)
        while any(self.model.owed(n) for n in self.model.campaigns):
            self.finish_what_is_held()
        self.close()
        assert all(modelled.closed for modelled in self.model.campaigns.values())
        self.jobs_are_as_modelled()
        with self.database.reading() as s:
            assert check.check(s).complaints == ()
            assert all(row.done == row.jobs for row in campaign.campaigns(s))

    def finish_what_is_held(self) -> None:
        for board in BOARDS:
            self.lease(board, 100, both=False, starts=True)
        held = [name for name, attempt in self.model.attempts.items() if attempt.live]
        self.send([self.line(name, Verdict.PASS) for name in held])
