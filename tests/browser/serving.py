"""`farm status --web` in a process of its own, and which browser looks at it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A dashboard, and where its rows are."""

    address: str  # http://127.0.0.1:PORT
    url: str  # of the database
    token: str


def chromium() -> str | None:
    """The path of the system's browser; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def serving(folder: Path, url: str) -> Iterator[Served]:
    """The dashboard of a database, with its token in `folder`."""
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
