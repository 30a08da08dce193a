"""A small farm to look at: what passed, failed, went stale or never ran, and a hostile name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from db import blob, bug
from db.bug import Subject
from db.session import open_existing
from farm.campaign import Order, plan, submit
from farm.matrix import Row
from farm.reader import source_digest
from kernels import source
from kernels.catalog import Selection
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Device
from tests.db.test_benchmark import times
from tests.farm.grids import CPU, GPU
from tests.farm.lines import case_of, database_with, line_of
from workers.boards import Board

DAY_US = 86_400_000_000
GPU_2 = replace(GPU, slug="rtx-3060-dddd", uuid="GPU-cdef")
OLD = "ab" * 32
STALE = "cd" * 32
KINDS = ("Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4")
ORDER = Order(Selection(kernels=("rmsnorm/block",)), ("twin",), device=CPU.device_class)
FAILED = "cpu-x86_64/host/matvec/block/Q4_0/exact"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)\"'"  # no slash: one ends a kernel's name


def make(folder: Path) -> str:
    """The URL of a database with all of it."""
    url = database_with(folder, lines(time.time_ns() // 1000))
    database = open_existing(url)
    with database.writing() as s:
        text = source.text("matvec/block", "Q4_0")
        now = source_digest(Row("matvec", "block", "Q4_0", "exact"))
        blob.put_source(s, now, (blob.SourceText("matvec/block", "Q4_0", text),))
        then = source.text("matvec/block", "Q3_K").replace("__syncthreads();", "", 1)
        blob.put_source(s, STALE, (blob.SourceText("matvec/block", "Q3_K", then),))
        subject = Subject("cpu-x86_64", "host", "matvec", "block", "Q4_0", "")
        bug.link(s, subject, "https://bugs.example/7?a=1&b=2", time.time_ns() // 1000)
    submit(database, ORDER, plan(ORDER), [Board(CPU, ("twin",))], now_us=time.time_ns() // 1000)
    database.close()
    return url


def lines(now_us: int) -> Iterator[Evidence]:
    """One line after another, an hour apart, the last an hour ago."""
    found = list(_lines())
    for number, line in enumerate(found):
        finished_us = now_us - (len(found) - number) * DAY_US // 24
        yield replace(line, started_us=finished_us - 400_000, finished_us=finished_us)


def _lines() -> Iterator[Evidence]:
    newer = replace(CPU, fingerprint=(("os", "Linux 6.1"), ("libc", "glibc 2.36")))
    for margin in (0.2, 0.3, 0.35):
        yield _passed("block", "Q4_0", Build.EXACT, CPU, "host", margin, source=OLD)
    for number, kind in enumerate(KINDS):
        for build in (Build.EXACT, Build.DEFAULT):
            for kernel in ("block", "coalesced"):
                for device, backend in ((newer, "host"), (GPU, "cuda"), (GPU_2, "cuda")):
                    margin = 0.05 + 0.12 * ((number + len(kernel)) % 8)
                    yield _passed(kernel, kind, build, device, backend, margin)
    yield line_of(Verdict.FAIL, case_of(), newer)
    yield replace(line_of(Verdict.FAIL, case_of("Q6_K"), GPU), backend="cuda")
    yield line_of(Verdict.PASS, case_of("Q3_K"), newer, source=STALE)
    yield from _timed()
    for verdict, kind in ((Verdict.CRASH, "Q4_1"), (Verdict.REJECT, "MXFP4"), (Verdict.SKIP, "IQ4_NL")):
        yield line_of(verdict, case_of(kind, kernel="ladder_v2"), newer, source=OLD)
    yield replace(
        line_of(Verdict.FAIL, case_of(kernel=HOSTILE), newer, source=OLD), reason=HOSTILE + "</script>"
    )


def _timed() -> Iterator[Evidence]:
    for median_us in (40.0, 41.0, 30.0):
        line = _passed("block", "Q8_0", Build.DEFAULT, GPU, "cuda", 0.2)
        yield replace(line, benchmark=times(median_us))


def _passed(
    kernel: str, kind: str, build: Build, device: Device, backend: str, margin: float, source: str = ""
) -> Evidence:
    line = line_of(Verdict.PASS, case_of(kind, build, kernel), device, source)
    assert line.comparison is not None
    return replace(line, backend=backend, comparison=replace(line.comparison, bound_ratio=margin))
