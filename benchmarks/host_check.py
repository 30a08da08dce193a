"""Times the check build of the host runtime against the exact build on the same launches."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.host_launch import Bench, Subject, medians_ms
from kernels.model import Build, Role, Shape
from workers.host import compiler
from workers.host.check import Checker

TURNS = 7
# How many times the exact build's time the check build may take.
VECTOR, MATRIX = Shape.of(rows=1024, cols=4096), Shape.of(rows=256, cols=1024, batch=256)
SUBJECTS = (
    *(
        Subject(f"matvec/{name}", kind, VECTOR, 10)
        for name in ("block", "coalesced", "wide")
        for kind in ("Q4_K", "Q4_0", "F32")
    ),
    *(
        Subject(f"mul_mm/{name}", kind, MATRIX, 40)
        for name in ("reference", "tiled", "mma")
        for kind in ("Q4_0", "Q4_K", "Q8_0")
    ),
)


def watching(bench: Bench) -> Checker:
    """A checker of the plan's buffers."""
    checker = Checker()
    for buffer in bench.plan.buffers:
        checker.watch(bench.arena.buffers[buffer.name], buffer.role is Role.IN)
    return checker


def measure(subject: Subject, cache: Path) -> str:
    """One line of figures; SystemExit where the check build finds something or has other bits."""
    exact, check = (Bench(subject, build, cache) for build in (Build.EXACT, Build.CHECK))
    checker = watching(check)
    base, spent = medians_ms(time.thread_time, exact.run, partial(check.run, checker=checker), turns=TURNS)
    name = f"{subject.kernel} {subject.kind} {subject.shape}"
    if checker.findings:
        raise SystemExit(f"{name}: {checker.findings[0]}")
    if exact.out() != check.out():
        raise SystemExit(f"{name}: exact and check differ in bits")
    return (
        f"{name}: exact {base:.2f}, check {spent:.2f} ({spent / base:.1f}x, to stay below {subject.limit:g}x)"
    )


def main() -> None:
    print(f"{compiler.find().version}; medians of {TURNS}, ms of CPU time; x: times the exact build")
    print("bits of exact and check: compared, the same")
    with tempfile.TemporaryDirectory() as folder:
        for subject in SUBJECTS:
            print(measure(subject, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
