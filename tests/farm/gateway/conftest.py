"""A gateway over the small campaign, and clients that speak to it as a worker or as somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient

from db import token
from db.session import Database
from farm.coordinator import Coordinator
from farm.gateway.app import application
from farm.gateway.guard import Ledger
from tests.farm.conftest import FakeAgent
from workers.json_calls import Caller

FAR_US = 1 << 60  # on any clock


@dataclass
class Door:
    """The application, its clock, and what it said of another head."""

    client: TestClient
    database: Database
    now_us: int = 10
    superseded: list[str] = field(default_factory=list)

    def token(self, name: str = "bench", devices: str = "*") -> str:
        with self.database.writing() as s:
            return token.create(s, name, devices=devices, now_us=self.now_us, expires_us=FAR_US)

    def post(self, call: str, text: str | bytes, secret: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        said = self.client.post(f"/v1/{call}", content=text, headers=headers)
        return said.status_code, said.text

    def caller(self, secret: str) -> Caller:
        """The four calls; an assertion where the answer isn't 200."""

        def carry(call: str, text: str) -> str:
            status, said = self.post(call, text, secret)
            assert status == 200, (status, said)
            return said

        return Caller(carry)


@pytest.fixture
def agent(coordinator: Coordinator) -> FakeAgent:
    """An agent that nobody has met: one that says hello past the gateway has a board of the farm's own."""
    return FakeAgent(coordinator)


@pytest.fixture
def door(database: Database, coordinator: Coordinator, clock: Callable[[], float]) -> Door:
    door = Door(client=None, database=database)  # made of what needs the door
    ledger = Ledger(clock, rate_s=10.0, burst=100.0)
    app = application(
        database,
        lambda message: coordinator.answer_apart(message),
        ledger,
        door.superseded.append,
        lambda: door.now_us,
    )
    door.client = TestClient(app, raise_server_exceptions=True)
    return door
