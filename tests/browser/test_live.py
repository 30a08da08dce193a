"""A campaign that moves while somebody looks: no reload, no click, and the focus stays where it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from db.session import Database, open_existing
from farm.campaign import Order, plan, submit
from farm.coordinator import Coordinator
from kernels import catalog
from kernels.catalog import Selection
from kernels.evidence import Verdict
from tests.browser.conftest import Visit
from tests.browser.serving import Served
from tests.farm.conftest import DEVICE, FakeAgent
from workers.boards import Board

pytestmark = pytest.mark.browser

SMALL = Selection(kernels=("matvec/block",), kinds=("Q8_0",), shapes=("8x64", "9x64", "1x32"))


@pytest.fixture
def database(served: Served) -> Iterator[Database]:
    opened = open_existing(served.url)
    yield opened
    opened.close()


def test_a_campaign_moves_on_its_own(visit: Visit, database: Database) -> None:
    order = Order(SMALL, ("twin",), device=DEVICE.slug)
    submitted = submit(database, order, plan(order), [Board(DEVICE, ("twin",))], now_us=1)
    with contextlib.closing(Coordinator(database, catalog.digest())) as coordinator:
        agent = FakeAgent(coordinator)
        agent.hello()
        overview = visit.open("/")
        row = overview.locator(f'#campaigns tr[data-id="{submitted.campaign_id}"]')
        link = row.get_by_role("link")
        expect(row).to_contain_text("0 of 6")
        link.focus()
        first, second = agent.ask(limit=2).leases
        agent.finish(first)
        agent.finish(second, verdict=Verdict.FAIL)
        expect(row).to_contain_text("2 of 6")
        expect(row).to_contain_text("FAIL 1")
        expect(overview.locator("#live-bad")).to_contain_text("cpu-test-1/twin/matvec/block/Q8_0")
        expect(link).to_be_focused()

        overview.keyboard.press("Enter")
        overview.wait_for_url(f"**/campaign/{submitted.campaign_id}")
        expect(overview.locator("#done")).to_have_text("2")
        agent.finish(*agent.ask(limit=4).leases)
        expect(overview.locator("#done")).to_have_text("6")
        expect(overview.locator("#left")).to_have_text("closed")
        assert overview.locator("#bad li").count() == 1
