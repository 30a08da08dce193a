"""Pages, their JSON twins, and who gets them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from db.session import Database
from farm.matrix import Cell, Column, Matrix
from farm.web import grid
from farm.web.app import application, plotly_js
from farm.web.security import Door
from kernels.evidence import Verdict
from workers.machine import cpu_device

SECRET = "web-secret"
BEARER = {"Authorization": f"Bearer {SECRET}"}
CELL = "cpu-x86_64/twin/matvec/block/Q4_0"
PAGES = ["/", "/matrix", f"/cell/{CELL}", f"/device/{cpu_device().slug}", "/campaign/1", "/compare", "/login"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_its_content_and_nothing_from_elsewhere(visitor: TestClient, path: str) -> None:
    said = visitor.get(path)
    assert (said.status_code, said.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>" in said.text
    assert not re.search(r"""(?:src|href|action)=["']?(?:https?:)?//""", said.text)
    assert not re.search(
        r"<script(?![^>]* src=)|\son\w+=|style=", said.text
    )  # nothing that the policy would stop
    policy = said.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert said.headers["x-content-type-options"] == "nosniff"


def test_a_page_brings_its_style_and_the_policy_allows_no_other(visitor: TestClient) -> None:
    page = visitor.get("/")
    (text,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"style-src 'self' 'sha256-{digest}';" in page.headers["content-security-policy"]


def test_a_browser_keeps_the_script_of_a_version_and_no_page(visitor: TestClient) -> None:
    page = visitor.get("/")
    assert page.headers["cache-control"] == "no-store"
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(addresses) == 1
    for address in addresses:
        assert re.search(r"\?[0-9a-f]{8}$", address)  # another one when a file changes
        assert visitor.get(address).headers["cache-control"] == "max-age=31536000, immutable"
    assert visitor.get("/static/nothing.js").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/api/overview", "campaigns"),
        ("/api/matrix?q=kind:Q4_0", "cells"),
        (f"/api/cell/{CELL}/exact", "found"),
        (f"/api/device/{cpu_device().slug}", "device"),
        ("/api/campaign/1", "campaign"),
        ("/api/compare?a=build:exact&b=build:default", "broken"),
    ],
)
def test_a_page_has_a_json_twin_that_is_described(visitor: TestClient, path: str, key: str) -> None:
    said = visitor.get(path)
    assert said.status_code == 200
    assert key in said.json()
    described = visitor.get("/api/openapi.json").json()["paths"]
    route = path.partition("?")[0].split("/")[2]
    assert [one for one in described if one.startswith(f"/api/{route}")]


def test_the_matrix_shows_what_ran_and_what_never_did(visitor: TestClient) -> None:
    text = visitor.get("/matrix?q=op:matvec+kernel:block+device:cpu*").text
    assert re.search(r'<tr><th data-at="matvec/block/Q4_0">Q4_0<td><td \w>P<tr>', text)  # host, twin
    assert '<tr><th data-at="matvec/block/Q4_1">Q4_1<td><td><tr>' in text
    apart = visitor.get("/matrix?q=op:matvec+kernel:block+backend:twin&builds=apart").text
    assert re.search(r'<th data-at="matvec/block/Q4_0/exact">Q4_0 <i>exact</i><td \w>P', apart)
    cells = json.loads(visitor.get("/api/matrix?q=verdict:pass").text)["cells"]
    assert {(cell["kind"], cell["build"], cell["verdict"]) for cell in cells} == {
        ("Q4_0", "exact", "PASS"), ("Q4_0", "default", "PASS"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "becomes"),
    [
        ("q=verdict:fail&was=&verdict=&kind=", "verdict:fail"),  # words were typed, no list was touched
        ("q=verdict:fail&was=verdict:fail&verdict=fail&kind=Q4_0", "verdict:fail kind:Q4_0"),
        ("q=kind:q4_0&was=kind:q4_0&kind=", ""),  # the list was set to any
        ("q=kind:Q4_*&was=kind:Q4_*&kind=&op=ffn", "kind:Q4_* op:ffn"),  # the list can't show a glob
        ("q=op:ffn&was=no:filter&kind=Q4_0", "op:ffn kind:Q4_0"),
    ],
)
def test_a_list_that_was_left_alone_says_nothing(visitor: TestClient, sent: str, becomes: str) -> None:
    said = visitor.get(f"/matrix?{sent}", follow_redirects=False)
    assert said.status_code == 303
    assert dict(parse_qsl(urlsplit(said.headers["location"]).query)) == ({"q": becomes} if becomes else {})


def test_a_cell_is_drilled_to_its_bytes(visitor: TestClient) -> None:
    text = visitor.get(f"/cell/{CELL}/exact").text
    for words in ("Worst element", "Block of Q4_0", "as it ran", "farm run --case", "History"):
        assert words in text
    told = visitor.get(f"/api/cell/{CELL}/exact").json()
    assert len(told["history"]) == 2
    assert told["found"][0]["evidence"]["comparison"]["worst"]["block"]


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/matrix?q=foo:bar", 400, "no filter named &#39;foo&#39;"),
        ("/compare?a=campaign:x&b=campaign:1", 400, "campaign &#39;x&#39; is no number"),
        ("/nowhere", 404, "there is no page /nowhere"),
        ("/campaign/x", 422, "campaign_id: Input should be a valid integer"),
        ("/cell/nowhere/twin/matvec/block/Q4_0", 404, "no device named &#39;nowhere&#39;"),
        ("/cell/x", 400, "is not written DEVICE/BACKEND"),
        ("/device/nothing", 404, "no device named &#39;nothing&#39;"),
        ("/campaign/99", 400, "no campaign 99"),
        ("/api/matrix?q=foo:bar", 404, "no filter named 'foo'"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(visitor: TestClient, path: str, status: int, why: str) -> None:
    said = visitor.get(path)
    assert said.status_code == status
    assert why in said.text
    assert "Traceback" not in said.text


def test_actions_want_the_token(visitor: TestClient) -> None:
    assert visitor.post("/campaign/1/cancel").status_code == 403
    assert visitor.post("/campaign/1/cancel", headers=BEARER).status_code == 400  # it is closed
    assert visitor.post("/campaign/1/explode", headers=BEARER).status_code == 404
    board = f"/device/{cpu_device().slug}"
    for action in ("set-aside", "readmit"):
        assert visitor.post(f"{board}/{action}").status_code == 403
    assert "<form" not in visitor.get(board).text
    assert visitor.post("/bugs", data={"cell": CELL, "url": "https://bugs.example/1"}).status_code == 403
    assert visitor.post("/bugs/1/unlink", data={"cell": CELL}).status_code == 403
    elsewhere = BEARER | {"Origin": "http://evil.example"}
    assert visitor.post("/campaign/1/cancel", headers=elsewhere).status_code == 403


def test_a_login_gives_a_cookie_that_scripts_and_strangers_do_not_get(visitor: TestClient) -> None:
    assert visitor.post("/login", data={"token": "wrong"}).status_code == 403
    said = visitor.post("/login", data={"token": SECRET}, follow_redirects=False)
    assert said.status_code == 303
    assert {"HttpOnly", "SameSite=strict"} <= set(said.headers["set-cookie"].split("; "))
    assert "you may act" in visitor.get("/").text


def test_off_loopback_nothing_is_shown_without_the_token(database: Database) -> None:
    client = TestClient(application(database, Door(SECRET, private=True, hosts=())))
    for path in (*PAGES[:-1], "/api/overview", "/events/overview", "/plotly.js"):
        assert client.get(path).status_code == 403
    assert client.get("/login").status_code == 200
    assert client.get("/", headers=BEARER).status_code == 200


def test_another_name_than_loopback_gets_nothing(database: Database) -> None:
    """A page elsewhere whose name points here can't read the dashboard."""
    client = TestClient(application(database, Door(SECRET, private=False, hosts=("127.0.0.1", "localhost"))))
    assert client.get("/", headers={"Host": "evil.example:8600"}).status_code == 403
    assert client.get("/", headers={"Host": "127.0.0.1:8600"}).status_code == 200


def test_the_charts_script_is_the_packages(visitor: TestClient) -> None:
    assert visitor.get("/plotly.js").content == plotly_js().read_bytes()


HOSTILE = "|<script>alert(1)</script>\"'&"


def test_a_hostile_name_stays_text() -> None:
    column = Column(HOSTILE, "b", HOSTILE, "", "host", "")
    cell = Cell(
        HOSTILE, "b", "host", "matvec", HOSTILE, "Q4_0", "exact", Verdict.PASS, ("stale",), (), 1, 1,
        0.1, 0.1, 0.0, True, "", 1, HOSTILE,
    )  # fmt: skip
    text = grid.table(Matrix((replace(column, device=""),), (cell,), "d", 1))
    assert "<script" not in text
    # Address, kernel and name of the row; address and title and name of the column.
    assert text.count("&lt;script&gt;") == 5
