"""What the queue should do, without a database: a few dictionaries that the state machine holds it to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernels.model import Verdict

BUDGET, CRASHES = 3, 2  # as the design says them, whatever the code does


@dataclass
class Job:
    """A job as it should be."""

    campaign: int
    state: str = "waiting"
    verdict: Verdict | None = None
    line: str | None = None  # evidence id
    losses: int = 0
    crashed: set[str] = field(default_factory=set)  # attempt ids
    avoid: str = ""  # board


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


class Model:
    """Jobs, attempts and campaigns by their ids in the database."""

    def __init__(self) -> None:
        self.campaigns: dict[int, Campaign] = {}
        self.jobs: dict[int, Job] = {}
        self.attempts: dict[str, Attempt] = {}

    def takeable(self, board: str, others: bool) -> list[int]:
        """The jobs that a board may take, in the order in which it gets them."""
        open_ones = [n for n, c in self.campaigns.items() if not (c.closed or c.paused)]
        open_ones.sort(key=lambda n: (-self.campaigns[n].priority, n))
        return [
            job_id
            for campaign in open_ones
            for job_id, job in sorted(self.jobs.items())
            if job.campaign == campaign and job.state == "waiting" and not (others and job.avoid == board)
        ]

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

    def lose(self, attempt_ids: Iterable[str], charged: bool = True) -> None:
        for attempt in self._live(attempt_ids):
            job, blamed = self.jobs[attempt.job], attempt.state == "started" and charged
            attempt.state = "MISS"
            if job.state != "leased":
                continue
            job.losses += blamed
            if blamed and job.losses >= BUDGET:
                job.state, job.verdict = "done", Verdict.LOST
            else:
                self._again(attempt, avoid=blamed)

    def complete(self, attempt_id: str, verdict: Verdict, line: str) -> None:
        """A line that wasn't sent before."""
        attempt = self.attempts[attempt_id]
        job, was_live = self.jobs[attempt.job], attempt.live
        if was_live:
            attempt.state = "done"
        if job.state == "done":
            return
        if verdict is Verdict.CRASH:
            job.crashed.add(attempt_id)
            if len(job.crashed) < CRASHES:
                if was_live:
                    self._again(attempt, avoid=True)
                return
        job.state, job.verdict, job.line = "done", verdict, line

    def cancel(self, campaign_id: int) -> None:
        self.campaigns[campaign_id].cancelled = True
        started = {a.job for a in self.attempts.values() if a.state == "started"}
        for job_id, job in self.jobs.items():
            if job.campaign == campaign_id and job.state != "done" and job_id not in started:
                job.state, job.verdict = "done", Verdict.SKIP
        for attempt in self.attempts.values():
            if self.jobs[attempt.job].campaign == campaign_id and attempt.state == "leased":
                attempt.state = "returned"

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
            job.state, job.verdict = "done", Verdict.SKIP
        else:
            job.state = "waiting"
            job.avoid = attempt.board if avoid else job.avoid
