"""What a coordinator counts, in the format of Prometheus; every process and every test has its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: a commit of SQLite on a fast disk takes 1 ms, one behind a slow network or a checkpoint seconds.
COMMIT_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
WORKS_BUCKETS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Figures:
    """What a coordinator holds at one moment."""

    epoch: int
    leases: int
    boards: int  # heard within the last TTL
    waiting_works: int  # that the writer has not begun


class Metrics:
    """Counters since the process started, and gauges that are looked up when somebody asks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.hellos = self._counter("hellos", "Workers that said hello, by the answer.", "answer")
        self.leases = self._counter("leases", "Leases given out.")
        self.returned = self._counter("leases_returned", "Leases given back unstarted.")
        self.misses = self._counter("misses", "Leases whose worker was silent or held them for too long.")
        self.lines = self._counter("lines", "Evidence lines stored for the first time.")
        self.late = self._counter("lines_late", "Lines that came behind their job's verdict.")
        self.repeated = self._counter("lines_repeated", "Lines that were here already.")
        self.verdicts = self._counter("verdicts", "Jobs decided, by verdict.", "verdict")
        self.exams = self._counter("exams", "Exams that boards ended, by result.", "result")
        self.set_aside = self._counter("boards_set_aside", "Boards set aside by this process.")
        self.commit_s = self._histogram("commit_seconds", "One transaction of the writer.", COMMIT_BUCKETS)
        self.commit_works = self._histogram("commit_works", "Works in one transaction.", WORKS_BUCKETS)

    def watch(self, figures: Callable[[], Figures]) -> None:
        """Adds the gauges of a coordinator; `figures` is called at every scrape."""
        self._gauge("epoch", "The coordinator's epoch.", lambda: figures().epoch)
        self._gauge("leases_live", "Leases held now.", lambda: figures().leases)
        self._gauge("boards_heard", "Boards that called within the last TTL.", lambda: figures().boards)
        self._gauge("queue_depth", "Works that wait for the writer.", lambda: figures().waiting_works)

    def add(self, collector: Collector) -> None:
        """Adds what is looked up elsewhere at every scrape."""
        self.registry.register(collector)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _gauge(self, noun: str, about: str, now: Callable[[], float]) -> None:
        Gauge(f"farm_{noun}", about, registry=self.registry).set_function(now)

    def _counter(self, noun: str, about: str, *labels: str) -> Counter:
        return Counter(f"farm_{noun}", about, labels, registry=self.registry)

    def _histogram(self, noun: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"farm_{noun}", about, buckets=buckets, registry=self.registry)
