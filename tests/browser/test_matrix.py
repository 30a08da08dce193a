"""The matrix in a browser: words, lists and cards that filter, cells that the mouse and the keyboard open."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser


def words_of(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query).get("q", [""])[0]


def marks(page: Page) -> set[str]:
    """What stands in the matrix's cells."""
    return set(page.locator("#matrix td").all_inner_texts())


def test_words_lists_and_cards_filter(visit: Visit) -> None:
    page = visit.open("/matrix")
    page.get_by_label("filter").fill("verdict:fail backend:cuda")
    page.get_by_role("button", name="show").click()
    assert marks(page) == {"F!"}
    assert page.locator("#matrix [data-at]").all_inner_texts() == ["Q6_K"]

    page.get_by_role("combobox", name="kind").select_option(
        "Q4_0"
    )  # a list goes at once, and joins the words
    page.wait_for_url("**kind**")
    assert page.get_by_text("No cell is like that.").is_visible()
    page.get_by_role("combobox", name="backend").select_option("host")
    page.wait_for_url("**backend%3Ahost**")
    assert words_of(page) == "verdict:fail kind:Q4_0 backend:host"
    assert len(page.locator("#matrix [data-at]").all()) == 2  # the hostile one, too

    page.get_by_role("link", name="everything").click()
    page.locator(".cards").get_by_role("link", name=re.compile("^stale")).click()
    assert words_of(page) == "flag:stale"
    page.locator(".cards").get_by_role("link", name=re.compile("^CRASH")).click()
    assert words_of(page) == "flag:stale verdict:crash"
    assert marks(page) == {"C~"}


def test_a_card_replaces_the_verdict_that_was_asked_for(visit: Visit) -> None:
    page = visit.open("/matrix?q=verdict:bad")
    page.locator(".cards").get_by_role("link", name=re.compile("^REJECT")).click()
    assert words_of(page) == "verdict:reject"
    assert marks(page) == {"R~"}


def test_an_unknown_word_lists_what_there_is(visit: Visit) -> None:
    page = visit.open("/matrix")
    page.get_by_label("filter").fill("colour:red")
    page.get_by_label("filter").press("Enter")
    said = page.get_by_role("alert")
    expect(said).to_contain_text("no filter named 'colour'; there are verdict, op, kernel")
    assert page.get_by_label("filter").input_value() == "colour:red"
    visit.errors.clear()  # a browser notes the 400


def test_the_keyboard_alone_reaches_and_opens_a_cell(visit: Visit) -> None:
    page = visit.open("/matrix?q=op:matvec+device:cpu-x86_64+device:rtx-3060+backend:host+backend:cuda")
    page.keyboard.press("Tab")
    expect(page.get_by_text("skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TD":
            break
    focused = page.locator("#matrix td:focus")
    assert focused.count() == 1
    told = page.locator("#told")
    seen = [told.inner_text()]
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
        seen.append(told.inner_text())
    assert [line.partition(": ")[0] for line in seen] == [
        "matvec/block/Q1_0 on cpu-x86_64/host", "matvec/block/Q1_0 on rtx-3060/cuda",
        "matvec/block/Q2_0 on rtx-3060/cuda", "matvec/block/Q2_0 on cpu-x86_64/host",
        "matvec/block/Q2_0 on rtx-3060/cuda", "matvec/block/Q2_0 on cpu-x86_64/host",
    ]  # fmt: skip
    assert focused.get_attribute("aria-label") == seen[-1]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/cell/cpu-x86_64/host/matvec/block/Q2_0")


def test_a_step_goes_over_the_line_that_names_a_kernel(visit: Visit) -> None:
    page = visit.open("/matrix?q=kind:Q8_0+device:cpu-x86_64+backend:host+kernel:block+kernel:coalesced")
    page.locator("#matrix td").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#told").inner_text().startswith("matvec/coalesced/Q8_0 on cpu-x86_64/host: PASS")


def test_every_mark_differs_without_its_colour(visit: Visit) -> None:
    """Letters and signs tell verdicts, staleness and what was never run apart; a dot is drawn for nothing."""
    page = visit.open("/matrix")
    assert {"P", "P~", "F!", "F~", "C~", "R~", "S~", "", "th"} <= marks(page)
    empty = page.locator("#matrix td:empty").first
    assert empty.evaluate("cell => getComputedStyle(cell, '::before').content") == '"·"'
    stale = page.locator("#matrix td[z]").first
    assert "repeating-linear-gradient" in stale.evaluate("cell => getComputedStyle(cell).backgroundImage")
