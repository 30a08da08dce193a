"""Every page in a real browser: its content, a clean console, nothing from elsewhere, also on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser import scene
from tests.browser.conftest import PHONE, Visit
from tests.browser.serving import Served

pytestmark = pytest.mark.browser

PAGES = {
    "/": "Newest bad cells",
    "/matrix": "GPUs that no board fills yet",
    f"/cell/{scene.FAILED}": "Worst element",
    f"/device/{scene.GPU.slug}": "Where it stands apart from its class",
    "/campaign/1": "Campaign 1",
    "/compare?a=device:cpu-x86_64&b=device:rtx-3060": "good before, bad after",
    "/login": "the token in .farm/web.token",
}
# Texts of what is never to be scrolled for.
BEYOND_THE_EDGE = """
[...document.querySelectorAll('nav a, h1, h2, form, input, button, p')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML)
"""


@pytest.mark.parametrize("path", PAGES)
def test_a_page_stands_on_its_own(path: str, visit: Visit) -> None:
    page = visit.open(path)
    assert page.get_by_text(PAGES[path]).first.is_visible()
    assert page.locator("h1").count() == 1
    assert page.get_by_role("link", name="as JSON").get_attribute("href", timeout=1000) is not None
    assert visit.sideways_px() == 0


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone(path: str, visit: Visit) -> None:
    visit.page.set_viewport_size(PHONE)
    page = visit.open(path)
    assert page.get_by_text(PAGES[path]).first.is_visible()
    assert visit.sideways_px() == 0
    assert page.evaluate(BEYOND_THE_EDGE) == []


def test_a_wide_page_is_seen_as_one(visit: Visit) -> None:
    """The measure of the test before: a wide element without a frame of its own makes the page wide."""
    page = visit.open("/")
    page.evaluate("document.querySelector('main').append(document.createElement('hr'))")
    page.evaluate("document.querySelector('hr').style.width = '3000px'")
    assert visit.sideways_px() > 1000


def test_a_script_that_the_policy_forbids_is_told_in_the_console(browser: Browser, served: Served) -> None:
    """The measure of every test: a console that the policy speaks in isn't clean."""
    page = browser.new_page()
    page.goto(served.address + "/")
    for tag, what, rule in (
        ("script", "{text: 'window.ran = 1'}", "script-src"),
        ("img", "{src: 'http://elsewhere.example/a.png'}", "img-src"),
    ):
        with page.expect_console_message(lambda said, rule=rule: said.type == "error" and rule in said.text):
            page.evaluate(f"document.body.append(Object.assign(document.createElement('{tag}'), {what}))")
    assert page.evaluate("window.ran") is None
    page.close()


@pytest.mark.parametrize("path", ["/", "/matrix", "/compare?a=device:cpu-x86_64&b=device:rtx-3060"])
def test_a_hostile_name_is_text(path: str, visit: Visit) -> None:
    visit.page.on("dialog", lambda dialog: visit.errors.append(dialog.message))
    page = visit.open(path)
    assert "<script>alert(2)" in page.locator("main").inner_text()
    assert page.locator("main img, main script").count() == 0


def test_a_hostile_cell_has_a_page(visit: Visit) -> None:
    visit.page.on("dialog", lambda dialog: visit.errors.append(dialog.message))
    page = visit.open("/")
    page.get_by_role("link", name="<script>alert(2)").click()
    assert page.locator("h1").inner_text().startswith("cpu-x86_64-aaaa/host/matvec/<img src=x")
    assert page.locator("main img, main script").count() == 0
    page.locator("#chart .point").wait_for()
