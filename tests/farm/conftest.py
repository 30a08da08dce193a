"""A small campaign in a database of its own, and an agent that answers what a test tells it to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from db.session import Database, open_database
from farm.campaign import Order, Submitted, plan, submit
from farm.cli import main
from farm.coordinator import Coordinator
from kernels import catalog
from kernels.catalog import Selection
from kernels.evidence import Evidence, Verdict
from kernels.model import Device
from workers.boards import Board
from workers.protocol import Ask, Complete, Hello, Lease, Leases, Renew, Renewed, Welcome
from workers.request import Request
from workers.runner import ended

DEVICE = Device("cpu-test-1", "cpu-test", "A processor", "uuid-1")
SMALL = Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=("8x64", "9x64", "1x32"))


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeAgent:
    """Speaks the protocol as an agent does, one call at a time."""

    coordinator: Coordinator
    device: Device = DEVICE
    backends: tuple[str, ...] = ("twin",)
    worker_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0

    def hello(self, catalog_digest: str = "", protocol: int = 1) -> Welcome:
        digest = catalog_digest or catalog.digest()
        hello = Hello(self.worker_id, self.device, self.backends, digest, protocol)
        welcome = self.coordinator.hello(hello)
        self.epoch = welcome.epoch
        return welcome

    def ask(self, limit: int = 100) -> Leases:
        return self.coordinator.lease(Ask(self.worker_id, self.epoch, limit))

    def renew(
        self, *held: Lease, started: tuple[Lease, ...] = (), returned: tuple[Lease, ...] = ()
    ) -> Renewed:
        ids = [tuple(lease.attempt_id for lease in leases) for leases in (held, started, returned)]
        return self.coordinator.renew(Renew(self.worker_id, self.epoch, *ids))

    def finish(self, *leases: Lease, verdict: Verdict = Verdict.PASS) -> tuple[Evidence, ...]:
        lines = tuple(self.line(lease, verdict) for lease in leases)
        self.coordinator.complete(Complete(self.worker_id, self.epoch, lines))
        return lines

    def line(self, lease: Lease, verdict: Verdict) -> Evidence:
        request = Request(
            str(uuid.uuid4()), lease.case, lease.backend, self.device, attempt_id=lease.attempt_id
        )
        line = ended(request, verdict, "as told", 1, 2)
        return replace(line, source_digest=lease.source_digest, inputs_digest=lease.inputs_digest)


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args)

    return run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Where the farm's database is; a module that asks for `postgres` overrides it."""
    return f"sqlite:///{tmp_path}/farm.db"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def submitted(database: Database) -> Submitted:
    """Six jobs: three shapes in two builds on the twin of a processor."""
    return store(database, Order(SMALL, ("twin",)), DEVICE)


def store(database: Database, order: Order, device: Device) -> Submitted:
    return submit(database, order, plan(order), [Board(device, ("twin",))], now_us=1)


@pytest.fixture
def store_order(database: Database) -> Callable[[Order, Device], Submitted]:
    """Stores an order for the twin of a device."""
    return lambda order, device: store(database, order, device)


@pytest.fixture
def coordinators(database: Database, clock: Clock) -> Iterator[Callable[[], Coordinator]]:
    """Starts coordinators, one after another as restarts do, and ends them all."""
    started: list[Coordinator] = []

    def start() -> Coordinator:
        started.append(Coordinator(database, catalog.digest(), clock=clock, ttl_s=6.0))
        return started[-1]

    yield start
    for coordinator in started:
        coordinator.close()


@pytest.fixture
def coordinator(submitted: Submitted, coordinators: Callable[[], Coordinator]) -> Coordinator:
    return coordinators()


@pytest.fixture
def agent(coordinator: Coordinator) -> FakeAgent:
    agent = FakeAgent(coordinator)
    agent.hello()
    return agent


@pytest.fixture
def make_agent() -> Callable[..., FakeAgent]:
    """Agents beside the first; `greet` says hello at once."""

    def make(coordinator: Coordinator, *, greet: bool = True, **fields: object) -> FakeAgent:
        agent = FakeAgent(coordinator, **fields)
        if greet:
            agent.hello()
        return agent

    return make
