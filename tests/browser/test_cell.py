"""From the overview down to the bytes of a block, by clicks alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser import scene
from tests.browser.conftest import Visit
from tests.farm.lines import BLOCK_HEX

pytestmark = pytest.mark.browser


def test_a_failing_cell_is_drilled_to_its_bytes(visit: Visit) -> None:
    page = visit.open("/")
    page.locator(".cards").get_by_role("link", name=re.compile("^FAIL")).click()
    page.locator("#matrix tr", has=page.locator('[data-at="matvec/block/Q4_0"]')).locator("td[f]").click()
    page.wait_for_url("**/cell/cpu-x86_64/host/matvec/block/Q4_0")
    page.locator("#parts").get_by_role("link", name="cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact").click()
    worst = page.locator("#worst")
    assert re.sub(r"\s+", " ", worst.inner_text()) == (
        "where out[2] of launch 0, matvec/block got 5.0 want 1.0 twin 1.25 limit ± 0.5"
    )
    rows = page.locator("#block tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["d", "qs"]
    assert "".join("".join(row.split("\t")[2:]).replace(" ", "") for row in rows) == BLOCK_HEX
    assert "256 × 1 × 1" in page.locator("#launches").inner_text()
    page.get_by_text("matvec/block Q4_0, as it ran").click()
    assert "#define ENTRY matvec_block_q4_0" in page.locator("details.source pre").inner_text()
    assert page.get_by_text("farm repro cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact").is_visible()


def test_history_is_drawn_with_as_many_points_as_lines(visit: Visit) -> None:
    page = visit.open(f"/cell/{scene.FAILED}")
    page.locator("#chart .point").first.wait_for()
    assert page.locator("#chart .point").count() == page.locator("#history tbody tr").count() == 5
    assert page.get_by_text("First driver known good").count() == 0  # it passed and failed on the only one


def test_benchmarks_are_drawn_and_written(visit: Visit) -> None:
    page = visit.open("/cell/rtx-3060-cccc/cuda/matvec/block/Q8_0/default")
    page.locator("#times .point").first.wait_for()
    assert page.locator("#times .point").count() == 3
    medians = page.locator("#passes tbody tr td:nth-child(4)").all_inner_texts()
    assert medians == ["30", "41", "40"]


def test_what_changed_since_a_stale_cell_ran_is_shown(visit: Visit) -> None:
    page = visit.open("/cell/cpu-x86_64/host/matvec/block/Q3_K/exact")
    expect(page.locator("section .flag.stale").first).to_have_text("stale: the source has changed since")
    assert page.locator(".diff .add").count() > 0


def test_a_bug_is_linked_with_the_token_and_not_without(visit: Visit) -> None:
    page = visit.open("/login")
    page.get_by_label("the token").fill("wrong")
    page.get_by_role("button", name="log in").click()
    expect(page.get_by_role("alert")).to_contain_text("that is not the token")
    visit.errors.clear()  # a browser notes the 403
    page.get_by_label("the token").fill(visit.served.token)
    page.get_by_role("button", name="log in").click()
    visit.open("/cell/rtx-3060/cuda/matvec/block/Q6_K")
    page.get_by_label("address of a bug").fill("https://bugs.example/8")
    page.get_by_role("button", name="link it").click()
    expect(page.get_by_role("link", name="https://bugs.example/8")).to_be_visible()
    page.get_by_role("button", name="take away").click()
    expect(page.get_by_role("link", name="https://bugs.example/8")).to_have_count(0)
