"""The dashboard in a process of its own, and the system's Chromium, which may talk to nobody else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import scene

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "no Chromium: apt-get install chromium fonts-dejavu-core, then these tests run"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 15_000  # ends a wait for what never comes, and decides nothing
expect.set_options(timeout=PATIENCE_MS)
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 720}


@dataclass
class Served:
    """A dashboard, and where its rows are."""

    address: str  # http://127.0.0.1:PORT
    url: str  # of the database
    token: str


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
def chromium() -> str:
    """The browser's path; without one the tests are skipped and say what to install."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip(INSTALL)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("browser")
    url = scene.make(folder)
    with serving(folder, url) as found:
        yield found


@contextmanager
def serving(folder: Path, url: str) -> Iterator[Served]:
    """`farm status --web` until the tests are through with it."""
    words = [sys.executable, "-m", "farm", "status", "--web", "--port", "0", "--db", url]
    home = {**os.environ, "FARM_STATE": str(folder)}
    process = subprocess.Popen(words, env=home, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("farm: dashboard at http://"), said
        token = (folder / "web.token").read_text(encoding="ascii").strip()
        yield Served(said.split()[3].rstrip("/;"), url, token)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


# A module's, not the session's: Playwright's loop runs in the thread of the tests, where others start loops.
@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
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
