"""What the database knows, for Prometheus; looked up when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from db.counts import Counts, counts
from db.session import Database
from kernels.errors import FarmError


class Stored(Collector):
    """Gauges over a database. One that is away costs its figures, not the coordinator's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[Metric]:
        try:
            with self._database.reading() as s:
                found = counts(s)
        except FarmError:
            yield GaugeMetricFamily("farm_database_up", "Whether the database answered.", 0)
            return
        yield GaugeMetricFamily("farm_database_up", "Whether the database answered.", 1)
        yield from _gauges(found)


def _gauges(found: Counts) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("farm_jobs", "Jobs of all campaigns.", labels=("state", "verdict"))
    for state, verdict, count in found.jobs:
        jobs.add_metric((state, verdict or ""), count)
    yield jobs
    yield GaugeMetricFamily("farm_campaigns_open", "Campaigns that owe a verdict.", found.open_campaigns)
    yield GaugeMetricFamily("farm_attempts_live", "Attempts leased or started.", found.live_attempts)
    yield GaugeMetricFamily("farm_boards_known", "Boards ever seen.", found.boards)
    yield GaugeMetricFamily("farm_boards_aside", "Boards that are set aside.", found.boards_aside)


def registry_of(database: Database) -> CollectorRegistry:
    """A registry for a process that has the database and no coordinator."""
    made = CollectorRegistry()
    made.register(Stored(database))
    return made
