"""A dashboard to look at, and a browser that may talk to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import scene
from tests.browser.serving import FLAGS, Served, chromium, serving

INSTALL = "no Chromium: apt-get install chromium fonts-dejavu-core, then these tests run"
PATIENCE_MS = 15_000  # ends a wait for what never comes, and decides nothing
expect.set_options(timeout=PATIENCE_MS)
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 720}


@dataclass
class Visit:
    """A page and what it did that it shouldn't: errors in its console, requests to others."""

    page: Page
    served: Served
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.served.address + path)
        return self.page

    def sideways_px(self) -> int:
        """How far the page as a whole can be scrolled sideways."""
        root = "document.scrollingElement"
        return int(self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if chromium() is None:
        pytest.skip(INSTALL)
    folder = tmp_path_factory.mktemp("browser")
    with serving(folder, scene.make(folder)) as found:
        yield found


# A module's, not the session's: Playwright's loop runs in the thread of the tests, where others start loops.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if (path := chromium()) is None:
        pytest.skip(INSTALL)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=DESKTOP)
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def visit(context: BrowserContext, served: Served) -> Iterator[Visit]:
    """A page; whatever a test did with it, its console is clean and it asked its own server only."""
    found = Visit(context.new_page(), served)
    found.page.on("console", lambda told: found.errors.append(told.text) if told.type == "error" else None)
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    context.on(
        "request", lambda asked: found.strangers.append(asked.url) if _is_strange(asked.url, served) else None
    )
    yield found
    assert (found.errors, found.strangers) == ([], [])


def _is_strange(url: str, served: Served) -> bool:
    return urlsplit(url).scheme != "data" and not url.startswith(served.address + "/")
