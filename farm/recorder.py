"""Counts and logs what a coordinator does; the coordinator says it in one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from db.loss import Losses
from db.outcome import Outcome
from db.queue import Leased
from farm.exam import Result
from farm.log import logger
from farm.metrics import Figures, Metrics
from kernels.evidence import Evidence
from workers.protocol import Hello


class Held(NamedTuple):
    """What a live lease is about; one is made for every job."""

    campaign: int
    job: int
    device: str
    worker: str

    def fields(self) -> dict[str, object]:
        return self._asdict()


class Recorder:
    """One coordinator's counters and its part of the log; safe to call from several threads.

    What goes well is one line a message, not one a job: a farm does thousands a second. What goes wrong has
    a line of its own.
    """

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._log = logger("coordinator")
        self._held: dict[str, Held] = {}  # by attempt
        self._warned: dict[int, str] = {}  # by campaign

    def began(self, epoch: int, held: int, figures: Callable[[], Figures]) -> None:
        self.metrics.watch(figures)
        self._log = self._log.bind(epoch=epoch)
        self._log.debug("began", held_before=held)

    def joined(self, hello: Hello) -> None:
        self.metrics.hellos.labels("accepted").inc()
        self._log.info("worker joined", **_of(hello), backends=list(hello.backends))

    def refused(self, hello: Hello, reason: str) -> None:
        self.metrics.hellos.labels("refused").inc()
        self._log.warning("worker refused", **_of(hello), reason=reason)

    def leased(self, hello: Hello, leases: Sequence[Leased]) -> None:
        if not leases:
            return
        self.metrics.leases.inc(len(leases))
        slug = hello.device.slug
        self._held |= {
            one.attempt_id: Held(one.campaign_id, one.job_id, slug, hello.worker_id) for one in leases
        }
        for campaign, jobs in _by_campaign((one.campaign_id, one.job_id) for one in leases).items():
            self._log.debug("leased", **_of(hello), campaign=campaign, jobs=jobs)

    def noted(self, worker_id: str, started: Sequence[str], returned: Sequence[str]) -> None:
        """A worker said what it has begun and what it gives back."""
        self.metrics.returned.inc(len(returned))
        for word, attempts in (("started", started), ("returned", returned)):
            held = [one for attempt in attempts if (one := self._held.get(attempt))]
            for campaign, jobs in _by_campaign((one.campaign, one.job) for one in held).items():
                self._log.debug(word, worker=worker_id, device=held[0].device, campaign=campaign, jobs=jobs)

    def dropped(self, attempts: Iterable[str]) -> None:
        """Leases ended, however."""
        for attempt in attempts:
            self._held.pop(attempt, None)

    def missed(self, attempts: Iterable[str], reason: str, losses: Losses) -> None:
        """Leases were taken back; what became of their jobs."""
        for attempt in attempts:
            self.metrics.misses.inc()
            held = self._held.pop(attempt, None)
            about = held.fields() | {"lost": held.job in losses.lost} if held else {}
            self._log.warning("missed", lease=attempt, **about, reason=reason)
        if losses.lost:
            self.metrics.verdicts.labels("LOST").inc(len(losses.lost))

    def completed(self, hello: Hello, lines: Sequence[Evidence], outcomes: Sequence[Outcome]) -> None:
        """Lines were stored; those that decided nothing are told one by one."""
        decided = Counter(str(one.verdict) for one in outcomes if one.decided)
        for verdict, count in decided.items():
            self.metrics.verdicts.labels(verdict).inc(count)
        self.metrics.lines.inc(sum(one.new for one in outcomes))
        self.metrics.late.inc(sum(one.is_late for one in outcomes))
        self.metrics.repeated.inc(sum(not one.new for one in outcomes))
        done: list[tuple[int, int]] = []
        for line, outcome in zip(lines, outcomes, strict=True):
            held = self._held.get(line.attempt_id)
            if held and outcome.decided:
                done.append((held.campaign, held.job))
            if outcome.verdict.bad or not outcome.decided:
                self._tell(hello, line, outcome, held)
        for campaign, jobs in _by_campaign(done).items():
            self._log.debug("completed", **_of(hello), campaign=campaign, jobs=jobs)

    def _tell(self, hello: Hello, line: Evidence, outcome: Outcome, held: Held | None) -> None:
        about = {"campaign": held.campaign} if held else {}
        self._log.warning(
            "decided" if outcome.decided else "line kept",
            **_of(hello),
            **about,
            job=outcome.job_id,
            lease=line.attempt_id,
            evidence=line.evidence_id,
            verdict=str(outcome.verdict),
            reason=line.reason,
            note=outcome.note,
        )

    def examined(self, hello: Hello, result: Result) -> None:
        self.metrics.exams.labels("passed" if result.passed else "failed").inc()
        if result.passed:
            self._log.info("exam passed", **_of(hello))
        else:
            self.set_aside(hello.device.slug, result.reason)

    def set_aside(self, slug: str, reason: str) -> None:
        self.metrics.set_aside.inc()
        self._log.warning("set aside", device=slug, reason=reason)

    def stopped(self, campaigns: Mapping[int, str]) -> None:
        """Campaigns reached a limit of their own; why."""
        for campaign, reason in campaigns.items():
            self._log.warning("campaign stopped", campaign=campaign, reason=reason)

    def warned(self, campaigns: Mapping[int, str]) -> None:
        """Campaigns whose limit doesn't see all that they cost; each warning is told once."""
        for campaign, reason in campaigns.items():
            if self._warned.get(campaign) != reason:
                self._warned[campaign] = reason
                self._log.warning("campaign's cost isn't known", campaign=campaign, reason=reason)

    def committed(self, seconds: float, works: int) -> None:
        self.metrics.commit_s.observe(seconds)
        self.metrics.commit_works.observe(works)


def _of(hello: Hello) -> dict[str, object]:
    return {"device": hello.device.slug, "worker": hello.worker_id}


def _by_campaign(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for campaign, job in pairs:
        found.setdefault(campaign, []).append(job)
    return found
