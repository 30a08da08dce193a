"""What the queue should do, without a database: a few dictionaries that the state machine holds it to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from kernels.evidence import Verdict

BUDGET, CRASHES = 3, 2  # as the design says them, whatever the code does


@dataclass
class Job:
    """A job as it should be."""

    campaign: int
    state: str = "waiting"
    verdict: Verdict | None = None
    line: str | None = None  # evidence id
    losses: int = 0
    avoid: str = ""  # board
    crashes: int = 0  # as counted last
    by: str = ""  # attempt whose line decided
    decided_us: int = 0  # when that line was stored
    case_id: str = ""
    looked: str = ""  # board that passed it first: another is to run it


@dataclass
class Attempt:
    """An attempt as it should be."""

    job: int
    board: str
    state: str = "leased"

    @property
    def live(self) -> bool:
        return self.state in ("leased", "started")


@dataclass
class Campaign:
    """A campaign as it should be."""

    priority: int
    paused: bool = False
    cancelled: bool = False
    closed: bool = False
    twice: float = 0.0


@dataclass
class Said:
    """A line that may count again later."""

    job: int
    attempt: str
    board: str
    stored_us: int
    finished_us: int = 0
    doubted: bool = False


class Model:
    """Jobs, attempts and campaigns by their ids in the database."""

    def __init__(self) -> None:
        self.campaigns: dict[int, Campaign] = {}
        self.jobs: dict[int, Job] = {}
        self.attempts: dict[str, Attempt] = {}
        self.crashed: list[Said] = []
        self.passed: dict[str, Said] = {}  # by evidence id; those that count for a cell
        self.examined_us: dict[str, int] = {}  # by board
        self.aside: set[str] = set()

    def takeable(self, board: str, others: bool) -> list[int]:
        """The jobs that a board may take, in the order in which it gets them."""
        open_ones = [n for n, c in self.campaigns.items() if not (c.closed or c.paused)]
        open_ones.sort(key=lambda n: (-self.campaigns[n].priority, n))
        return [
            job_id
            for campaign in open_ones
            for job_id, job in sorted(self.jobs.items(), key=lambda item: (bool(item[1].looked), item[0]))
            if job.campaign == campaign and job.state == "waiting" and self._is_for(job, board, others)
        ]

    def _is_for(self, job: Job, board: str, others: bool) -> bool:
        """There are two boards: who may look twice is the only one, whatever was lost there."""
        return job.looked != board if job.looked else not (others and job.avoid == board)

    def is_wanted(self) -> bool:
        """Whether a worker that asks may get a job."""
        return any(job.state == "waiting" for job in self.jobs.values())

    def leased(self, attempt_id: str, job_id: int, board: str) -> None:
        self.jobs[job_id].state = "leased"
        self.attempts[attempt_id] = Attempt(job_id, board)

    def start(self, attempt_ids: Iterable[str]) -> None:
        for attempt in self._live(attempt_ids):
            attempt.state = "started"

    def give_back(self, attempt_ids: Iterable[str]) -> None:
        for attempt in self._live(attempt_ids):
            if attempt.state == "leased":
                attempt.state = "returned"
                self._again(attempt)

    def lose(self, attempt_ids: Iterable[str], now_us: int, charged: bool = True) -> None:
        for attempt_id in [name for name in attempt_ids if self.attempts[name].live]:
            attempt = self.attempts[attempt_id]
            job, blamed = self.jobs[attempt.job], attempt.state == "started" and charged
            attempt.state = "MISS"
            if job.state != "leased":
                continue
            job.losses += blamed
            if blamed and job.losses >= BUDGET:
                self._decide(job, Verdict.LOST, None, attempt_id, now_us)
            else:
                self._again(attempt, avoid=blamed)

    def complete(self, attempt_id: str, verdict: Verdict, line: str, finished_us: int, now_us: int) -> None:
        """A line that wasn't sent before."""
        attempt = self.attempts[attempt_id]
        job, was_live, spoke = self.jobs[attempt.job], attempt.live, attempt.state == "done"
        if was_live:
            attempt.state = "done"
        said = Said(attempt.job, attempt_id, attempt.board, now_us, finished_us)
        if verdict is Verdict.CRASH:
            self.crashed.append(said)
        if job.state == "done" or spoke:
            return
        if verdict is Verdict.CRASH:
            job.crashes = self._crashes(attempt.job)
            if job.crashes < CRASHES:
                if was_live:
                    self._again(attempt, avoid=True)
                return
        if verdict is Verdict.PASS:
            self.passed.setdefault(line, said)
        self._decide(job, verdict, line, attempt_id, now_us)

    def imported(self, attempt_id: str, line: str, finished_us: int, now_us: int) -> None:
        """A PASS that a bundle brought."""
        attempt = self.attempts[attempt_id]
        self.passed[line] = Said(attempt.job, attempt_id, attempt.board, now_us, finished_us)

    def _decide(self, job: Job, verdict: Verdict, line: str | None, attempt_id: str, now_us: int) -> None:
        job.state, job.verdict, job.line = "done", verdict, line
        job.by, job.decided_us = attempt_id, now_us
        if verdict in (Verdict.SKIP, Verdict.ERROR, Verdict.LOST):
            self._keep_first(job)

    def _keep_first(self, job: Job) -> bool:
        """A second look that told nothing ends as the first did, where that is believed."""
        mine = {n: said for n, said in self.passed.items() if self.jobs[said.job] is job and not said.doubted}
        if not (job.looked and mine):
            return False
        line = max(mine, key=lambda name: (mine[name].finished_us, name))
        job.state, job.verdict, job.line = "done", Verdict.PASS, line
        job.by, job.decided_us = mine[line].attempt, mine[line].stored_us
        return True

    def _crashes(self, job_id: int) -> int:
        return len({said.attempt for said in self.crashed if said.job == job_id and not said.doubted})

    def ask(self, job_ids: Iterable[int], is_chosen: Callable[[str, float], bool]) -> None:
        for job in map(self.jobs.__getitem__, job_ids):
            within = self.campaigns[job.campaign]
            open_one = not (within.closed or within.cancelled)
            passed = job.verdict is Verdict.PASS and job.line and not job.looked
            if open_one and passed and is_chosen(job.case_id, within.twice) and not self._is_held(job):
                job.looked = self.attempts[job.by].board
                self._reopen(job)

    def withdraw(self, at_work: Collection[str]) -> None:
        for job in self.jobs.values():
            within = self.campaigns[job.campaign]
            mine = job.looked and job.state == "waiting" and not (within.closed or within.paused)
            if mine and not set(at_work) - {job.looked} and not self._keep_first(job):
                job.looked = ""

    def set_aside(self, board: str) -> None:
        self.aside.add(board)
        since = self.examined_us.get(board, 0)
        for said in (*self.crashed, *self.passed.values()):
            said.doubted |= said.board == board and said.stored_us > since
        for job in self.jobs.values():
            within = self.campaigns[job.campaign]
            told = job.by and self.attempts[job.by].board == board and job.decided_us > since
            if job.state == "done" and told and not (within.closed or within.cancelled):
                job.avoid = board
                self._reopen(job)
        for said in self.crashed:
            if said.doubted and said.board == board and self.jobs[said.job].state != "done":
                self.jobs[said.job].crashes = self._crashes(said.job)

    def readmit(self, board: str, now_us: int) -> None:
        self.aside.remove(board)
        self.examined_us[board] = now_us

    def _reopen(self, job: Job) -> None:
        self.attempts[job.by].state = "done"
        job.state = "leased" if self._is_held(job) else "waiting"
        job.verdict = job.line = None
        job.by = ""

    def _is_held(self, job: Job) -> bool:
        return any(attempt.live and self.jobs[attempt.job] is job for attempt in self.attempts.values())

    def cancel(self, campaign_id: int) -> int:
        """How many jobs are SKIP by it."""
        self.campaigns[campaign_id].cancelled = True
        started = {a.job for a in self.attempts.values() if a.state == "started"}
        # What is at work on a job that has its verdict ends by itself.
        leased = [a for a in self.attempts.values() if a.state == "leased"]
        held = [attempt for attempt in leased if self.jobs[attempt.job].state == "leased"]
        skipped = 0
        for job_id, job in self.jobs.items():
            is_left = job.campaign == campaign_id and job.state != "done" and job_id not in started
            if is_left and not self._keep_first(job):
                job.state, job.verdict, job.by = "done", Verdict.SKIP, ""
                skipped += 1
        for attempt in held:
            if self.jobs[attempt.job].campaign == campaign_id:
                attempt.state = "returned"
        return skipped

    def close(self) -> set[int]:
        """Closes what is finished."""
        closing = {n for n, c in self.campaigns.items() if not c.closed and not self.owed(n)}
        for campaign_id in closing:
            self.campaigns[campaign_id].closed = True
        return closing

    def owed(self, campaign_id: int) -> int:
        return sum(job.campaign == campaign_id and job.state != "done" for job in self.jobs.values())

    def _live(self, attempt_ids: Iterable[str]) -> list[Attempt]:
        return [self.attempts[name] for name in attempt_ids if self.attempts[name].live]

    def _again(self, attempt: Attempt, avoid: bool = False) -> None:
        job = self.jobs[attempt.job]
        if job.state != "leased":
            return
        if self.campaigns[job.campaign].cancelled:
            job.state, job.verdict, job.by = "done", Verdict.SKIP, ""
        else:
            job.state = "waiting"
            job.avoid = attempt.board if avoid else job.avoid
