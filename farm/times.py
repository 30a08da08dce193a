"""A benchmark in words and as JSON: medians with their spread, and shares of what the board did beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from db.benchmark import Timed
from farm.marks import timestamp
from kernels import codec
from kernels.benchmark import Benchmark

HOST = "host"
NO_GPU = "by a processor's clock: it says nothing about a GPU"


def lines(one: Timed) -> Iterator[str]:
    """What was timed, then `words` of it, one below the other."""
    key = one.key
    yield f"{key.op}/{key.kernel} {key.kind} {one.shape} {key.build} on {key.device}/{key.backend}"
    yield from (f"  {text}" for text in words(one.benchmark, key.backend))


def words(found: Benchmark, backend: str) -> Iterator[str]:
    """`412.3 µs ± 1.2 (p10 410.9, p90 417.0), 312.4 GB/s`, its shares, its conditions and doubts."""
    times = found.spread
    yield (
        f"{times.median_us:,.1f} µs ± {times.mad_us:.1f} (p10 {times.p10_us:,.1f}, p90 {times.p90_us:,.1f}, "
        f"{times.batches} x {found.passes} passes), {found.gb_per_s:,.1f} GB/s"
    )
    if found.refused:
        yield f"no valid benchmark: {found.refused}"
    if backend == HOST:
        yield NO_GPU
        return
    if shares := ", ".join(_shares(found)):
        yield shares
    if found.least and found.share_of_least is not None:
        limits = ", ".join(f"{limit.name} {limit.pass_us:,.1f} µs" for limit in found.limits)
        yield f"{found.share_of_least:.1%} of the least limit, {found.least.name} (limits: {limits})"
    if state := ", ".join(f"{name} {value}" for name, value in found.after):
        yield state
    yield from (f"note: {note}" for note in found.notes)


def _shares(found: Benchmark) -> Iterator[str]:
    """Of the bytes a second of the yardsticks, and of the time of dense products of the same size."""
    for mark in found.marks:
        if mark.name.startswith("gemm"):
            yield f"{mark.spread.median_us / found.spread.median_us:.2f} times as fast as {mark.name}"
        elif mark.gb_per_s:
            yield f"{found.gb_per_s / mark.gb_per_s:.1%} of {mark.name} ({mark.gb_per_s:,.1f} GB/s)"


def record(one: Timed) -> dict[str, Any]:
    """A benchmark under the names of the JSON schema."""
    found = one.benchmark
    return {
        **one.key._asdict(),
        "device_class": one.device_class,
        "driver": one.driver or None,
        "shape": one.shape,
        "case_id": one.case_id,
        "evidence_id": one.evidence_id,
        "last_run": timestamp(one.finished_us),
        "valid": not found.refused,
        "gb_per_s": found.gb_per_s,
        "share_of_least": found.share_of_least,
        "least": found.least.name if found.least else None,
        **codec.encode(found),
    }
