"""The dashboard in a browser, and what watching costs: on a small farm and on one of 200 device classes.

The large one has every cell of the catalog on every class, more than 30 kinds of 12 kernels. Chromium draws
the pages; without one, its figures are left out. "Worked" is the processor time of its main thread, which
says more than a clock where something else runs, too.
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from db import capability, device, evidence
from db.session import Database, open_database
from farm.matrix import Row
from farm.reader import source_digest
from kernels import catalog
from kernels.evidence import Verdict
from kernels.model import Device
from tests.browser import scene
from tests.browser.serving import FLAGS, Served, chromium, serving
from tests.farm.grids import capability as cell_of
from tests.farm.lines import line_of

CLASSES = 200
TURNS = 9
WATCHED_S = 40.0
SETTLED_S = 4.0
PICTURE_BYTES = 1000
NOW_US = time.time_ns() // 1000
PAINT = """
() => new Promise(found => new PerformanceObserver(list => {
    const paint = list.getEntriesByName("first-contentful-paint")[0];
    if (paint) found([paint.startTime, performance.getEntriesByType("navigation")[0].loadEventEnd]);
}).observe({ type: "paint", buffered: true }))
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as home:
        small, large = Path(home) / "small", Path(home) / "large"
        for folder in (small, large):
            folder.mkdir()
        urls = {small: scene.make(small), large: many_classes(large)}
        with serving(small, urls[small]) as served:
            painted(served, ("/", f"/cell/{scene.FAILED}", "/matrix"), "small")
        with serving(large, urls[large]) as served:
            sized(served)
            painted(served, ("/", "/matrix"), "large")
        for folder, name in ((small, "small"), (large, "large")):
            print(
                f"{name}: farm status --watch took {watched(urls[folder]):.1%} of a core (limit 5 %)",
                flush=True,
            )


def many_classes(folder: Path) -> str:
    """A database in which every class passed every cell of the catalog, some with doubts."""
    url = f"sqlite:///{folder / 'farm.db'}"
    rows = [Row(name.op, name.kernel, name.kind, name.build.value) for name in catalog.cells()]
    sources = {row: source_digest(row) for row in rows}
    database = open_database(url)
    with database.writing() as s:
        for number in range(CLASSES):
            board = Device(f"gpu-{number:03}-a", f"gpu-{number:03}", f"GPU {number}", f"GPU-{number}",
                           fingerprint=(("sm", f"sm_{75 + number % 40}"),))  # fmt: skip
            device.see(s, board, NOW_US)
            capability.write(s, [
                cell_of(verdict_of(number, place), board, "cuda", row, sources[row],
                        bound_ratio=(place * number) % 100 / 100, last_run_us=NOW_US)
                for place, row in enumerate(rows)
            ])  # fmt: skip
    database.close()
    print(f"large: {CLASSES} classes x {len(rows):,} rows, {len(rows) * CLASSES:,} cells", flush=True)
    return url


def verdict_of(number: int, place: int) -> Verdict:
    """PASS, and every ninth cell one of all verdicts in turn."""
    return list(Verdict)[(place * 7 + number) % 8] if (place + number) % 9 == 0 else Verdict.PASS


def sized(served: Served) -> None:
    """Bytes and time of the matrix page, as a program gets it: first, and when somebody asks again."""
    took: list[float] = []
    for _ in range(TURNS):
        began_s = time.perf_counter()
        plain = urllib.request.urlopen(served.address + "/matrix").read()
        took.append(time.perf_counter() - began_s)
    packed = urllib.request.urlopen(
        urllib.request.Request(served.address + "/matrix", headers={"Accept-Encoding": "gzip"})
    ).read()
    print(f"large: matrix page {len(plain):,} bytes, {len(packed):,} as sent (limit 1,000,000)")
    median = statistics.median(took[1:])
    print(f"large: matrix page first {took[0]:.2f} s, then median {median:.3f} s (limit 1 s)", flush=True)


def painted(served: Served, paths: tuple[str, ...], name: str) -> None:
    """Medians of what a browser does that has nothing of the page cached."""
    with browsing() as browser:
        if browser is None:
            print(f"{name}: no Chromium, so no first paint; apt-get install chromium fonts-dejavu-core")
            return
        for path in paths:
            times = [first_paint(browser, served.address + path) for _ in range(TURNS + 1)][1:]
            paint_ms, loaded_ms, work_ms = map(statistics.median, zip(*times, strict=True))
            told = f"first paint of {path} median {paint_ms:.0f} ms (limit 300 ms), loaded {loaded_ms:.0f} ms"
            print(f"{name}: {told}, worked {work_ms:.0f} ms", flush=True)


def first_paint(browser: Browser, address: str) -> tuple[float, float, float]:
    """First content, the whole page, and what the main thread worked for it; milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    counters = page.context.new_cdp_session(page)
    counters.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address, wait_until="load")
    paint_ms, loaded_ms = page.evaluate(PAINT)
    told = {one["name"]: one["value"] for one in counters.send("Performance.getMetrics")["metrics"]}
    page.close()
    return float(paint_ms), float(loaded_ms), 1000 * float(told["TaskDuration"])


@contextmanager
def browsing() -> Iterator[Browser | None]:
    path = chromium()
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


def watched(url: str) -> float:
    """The share of a core that a terminal of 120 columns costs while a line comes in every second."""
    main_end, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    words = [sys.executable, "-m", "farm", "status", "--watch", "--db", url]
    process = subprocess.Popen(words, stdin=end, stdout=end, stderr=end, env={**os.environ, "TERM": "xterm"})
    os.close(end)
    drawn = threading.Event()
    threading.Thread(target=drain, args=(main_end, drawn), daemon=True).start()
    database = open_database(url)
    try:
        drawn.wait()  # the first reading of the matrix isn't part of it
        moving(database, SETTLED_S)
        used_s, began_s = cpu_s(process.pid), time.monotonic()
        moving(database, WATCHED_S)
        return (cpu_s(process.pid) - used_s) / (time.monotonic() - began_s)
    finally:
        database.close()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)


def drain(terminal: int, drawn: threading.Event) -> None:
    """Takes what a terminal gets until its program ends; says when a first picture is there."""
    seen = 0
    while True:
        try:
            seen += len(os.read(terminal, 65536))
        except OSError:  # the program has ended
            return
        if seen > PICTURE_BYTES:
            drawn.set()


def moving(database: Database, for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Imports a line a second, as a campaign would append them."""
    until_s = clock() + for_s
    while clock() < until_s:
        now_us = time.time_ns() // 1000
        with database.writing() as s:
            evidence.import_lines(s, [replace(line_of(), started_us=now_us, finished_us=now_us)], now_us)
        time.sleep(1.0)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
