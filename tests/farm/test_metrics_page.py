"""/metrics on the gateway and on the dashboard: what it says, and to whom."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from db.session import Database, open_database
from farm.coordinator import Coordinator
from farm.gateway.server import Place, door_of
from farm.metrics import CONTENT_TYPE
from farm.metrics_page import add_metrics
from farm.stored_metrics import Stored
from farm.web.app import application
from farm.web.security import LOOPBACK, Door
from tests.farm.conftest import FakeAgent

SECRET = "web-secret"
BEARER = {"Authorization": f"Bearer {SECRET}"}


def samples(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    found = [sample for family in families for sample in family.samples]
    return {"/".join((one.name, *one.labels.values())): one.value for one in found}


def client_of(coordinator: Coordinator, database: Database, door: Door) -> TestClient:
    app, metrics = FastAPI(), coordinator.recorder.metrics
    metrics.add(Stored(database))
    add_metrics(app, metrics.text, door)
    return TestClient(app, base_url="http://127.0.0.1:8443")


def test_counters_of_the_coordinator_stand_beside_what_the_database_knows(
    agent: FakeAgent, coordinator: Coordinator, database: Database
) -> None:
    client = client_of(coordinator, database, Door(SECRET, private=False, hosts=LOOPBACK))
    agent.finish(*agent.ask(4).leases[:3])
    said = client.get("/metrics")
    assert (said.status_code, said.headers["content-type"]) == (200, CONTENT_TYPE)
    now = samples(said.text)
    assert (now["farm_jobs/done/PASS"], now["farm_jobs/leased/"], now["farm_jobs/waiting/"]) == (3, 1, 2)
    assert (now["farm_verdicts_total/PASS"], now["farm_leases_live"], now["farm_attempts_live"]) == (3, 1, 1)
    assert (now["farm_boards_known"], now["farm_boards_heard"], now["farm_campaigns_open"]) == (1, 1, 1)


def test_a_database_that_is_away_costs_its_own_figures_alone(
    agent: FakeAgent, coordinator: Coordinator, tmp_path: Path
) -> None:
    away = open_database(f"sqlite:///{tmp_path}/away.db")
    client = client_of(coordinator, away, Door(SECRET, private=False, hosts=LOOPBACK))
    away.close()
    (tmp_path / "away.db").write_bytes(b"no database at all" * 99)
    now = samples(client.get("/metrics").text)
    assert (now["farm_database_up"], now["farm_boards_heard"]) == (0, 1)
    assert "farm_boards_known" not in now


@pytest.mark.parametrize(
    ("given", "status"),
    [("", 401), ("Bearer web-secreu", 401), (f"Basic {SECRET}", 401), (f"Bearer {SECRET}", 200)],
)
def test_off_loopback_nothing_is_shown_without_the_token(
    given: str, status: int, coordinator: Coordinator, database: Database
) -> None:
    client = client_of(coordinator, database, Door(SECRET, private=True, hosts=()))
    said = client.get("/metrics", headers={"Authorization": given})
    assert said.status_code == status
    assert ("farm_leases_total" in said.text) is (status == 200)
    assert SECRET not in said.text


def test_a_page_of_another_name_is_not_shown_them(coordinator: Coordinator, database: Database) -> None:
    client = client_of(coordinator, database, Door(SECRET, private=False, hosts=LOOPBACK))
    said = client.get("/metrics", headers={"Host": "rebound.example"})
    assert (said.status_code, "farm_" in said.text) == (403, False)


@pytest.mark.parametrize(
    ("place", "private"),
    [
        (Place("127.0.0.1", 0), False),
        (Place("127.0.0.1", 0, behind_proxy=True), True),
        (Place("10.0.0.5", 0, "cert.pem", "key.pem"), True),
    ],
)
def test_a_gateway_shows_them_to_everybody_on_loopback_alone(
    place: Place, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    door = door_of(place)
    assert (door.private, door.hosts) == (private, () if private else LOOPBACK)
    assert door.secret == (tmp_path / "web.token").read_text()


def test_the_dashboard_shows_what_the_database_knows(submitted: object, database: Database) -> None:
    def visit(private: bool, headers: dict[str, str]) -> tuple[int, str]:
        app = application(database, Door(SECRET, private=private, hosts=()))
        said = TestClient(app).get("/metrics", headers=headers)
        return said.status_code, said.text

    status, text = visit(False, {})
    assert (status, samples(text)["farm_jobs/waiting/"], samples(text)["farm_database_up"]) == (200, 6, 1)
    assert "farm_leases_total" not in text  # no coordinator is behind it
    assert visit(True, {})[0] == 403
    assert visit(True, BEARER)[0] == 200
