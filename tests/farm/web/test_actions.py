"""What the token allows: campaigns are steered, boards set aside, bugs linked; what can't be done is said."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from db import bug, campaign, trust
from db.job import PlannedCase, Target
from db.session import Database, open_database
from farm.web.app import application
from farm.web.security import Door
from kernels.evidence import Rule
from tests.farm.lines import case_of
from workers.machine import cpu_device

SECRET = "web-secret"
BOARD = cpu_device()
CELL = f"{BOARD.device_class}/twin/matvec/block/Q4_0"


@pytest.fixture
def database(ran: Path, tmp_path: Path) -> Iterator[Database]:
    """A copy of the campaign that ran, with a second one that is open."""
    shutil.copy(ran, tmp_path / "farm.db")
    opened = open_database(f"sqlite:///{tmp_path}/farm.db")
    with opened.writing() as s:
        planned, target = [PlannedCase(case_of(), 1, "", "")], Target("twin", BOARD.device_class)
        campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=[target], now_us=1)
    yield opened
    opened.close()


@pytest.fixture
def client(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    made = TestClient(application(database, Door(SECRET, private=False, hosts=())))
    made.headers["Authorization"] = f"Bearer {SECRET}"
    return made


def test_a_campaign_is_paused_resumed_and_cancelled(client: TestClient, database: Database) -> None:
    def row() -> campaign.CampaignRow:
        with database.reading() as s:
            return campaign.campaign_row(s, 2)

    assert client.post("/campaign/2/resume").status_code == 400  # it isn't paused
    assert client.post("/campaign/2/pause", follow_redirects=False).status_code == 303
    assert row().paused_us is not None
    assert ">resume<" in client.get("/campaign/2").text
    client.post("/campaign/2/resume")
    assert row().paused_us is None
    client.post("/campaign/2/cancel")
    assert not row().is_open
    said = client.post("/campaign/2/pause")
    assert (said.status_code, "campaign 2 is cancelled" in said.text) == (400, True)


def test_a_retry_of_nothing_bad_is_refused(client: TestClient) -> None:
    said = client.post("/campaign/1/retry")
    assert said.status_code == 400
    assert "campaign 1 has no job that ended" in said.text


def test_a_board_is_set_aside_and_readmitted(client: TestClient, database: Database) -> None:
    page = f"/device/{BOARD.slug}"

    def why() -> str:
        with database.reading() as s:
            return trust.why_aside(s, BOARD.slug)

    text = client.get(page).text
    assert (f'action="{page}/set-aside"' in text, "/readmit" in text) == (True, False)
    assert client.post(f"{page}/set-aside", follow_redirects=False).status_code == 303
    assert why() == "by hand"
    text = client.get(page).text
    assert (f'action="{page}/readmit"' in text, "/set-aside" in text) == (True, False)
    assert "set aside: by hand" in text
    assert client.post(f"{page}/readmit").status_code == 200
    assert why() == ""
    again = client.post(f"{page}/readmit")
    assert (again.status_code, "set aside; those that are: none" in again.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/device/nothing/set-aside", "no board named &#39;nothing&#39;"),
        (f"/device/{BOARD.slug}/explode", "no action named &#39;explode&#39;; there are set-aside, readmit"),
    ],
)
def test_a_board_or_an_action_that_is_not_there_is_said(client: TestClient, path: str, why: str) -> None:
    said = client.post(path)
    assert (said.status_code, why in said.text) == (404, True)


def test_a_bug_is_linked_shown_and_taken_away(client: TestClient, database: Database) -> None:
    address = "https://bugs.example/7?a=1&b=2"
    for cell in (CELL, f"{CELL}/exact"):
        shown = client.post("/bugs", data={"cell": cell, "url": address}).text
        assert 'href="https://bugs.example/7?a=1&amp;b=2" rel="noreferrer noopener"' in shown
    assert "every build" in shown
    with database.reading() as s:
        assert [one.subject.build for one in bug.bugs(s)] == ["exact", ""]
    default = client.get(f"/api/cell/{CELL}/default").json()
    assert [one["build"] for one in default["bugs"]] == [""]
    client.post("/bugs/1/unlink", data={"cell": CELL})
    assert [one["build"] for one in client.get(f"/api/cell/{CELL}").json()["bugs"]] == ["exact"]
    assert client.post("/bugs/1/unlink", data={"cell": CELL}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "why"),
    [
        ({"cell": CELL, "url": "javascript:alert(1)"}, 400, "is no web address"),
        ({"cell": "x", "url": "https://bugs.example/1"}, 400, "is not written DEVICE/BACKEND"),
        ({"cell": CELL}, 422, "body.url: Field required"),
    ],
)
def test_a_bug_that_is_none_is_said(
    client: TestClient, fields: dict[str, str], status: int, why: str
) -> None:
    said = client.post("/bugs", data=fields)
    assert (said.status_code, why in said.text) == (status, True)
