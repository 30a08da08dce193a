"""What an unknown box is worth, in one command: is it believed, how fast is it, does it survive a bad kernel.

run(wanted, say) -> tuple[Step, …]       # probe, admission, quick tier, benchmarks, a crash, a hang, bundle
table(steps) -> lines
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from kernels import catalog, registry
from kernels.catalog import Planned, Selection
from kernels.declared import catalog as declared
from kernels.declared.catalog import Catalog
from kernels.declared.pack import Pack
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Device
from workers import bundle, packs
from workers.board_lock import held
from workers.exam import admit
from workers.isolate import Isolated
from workers.request import Request
from workers.standalone import Order, request, run_cases
from workers.worth import most_valuable_first

DEADLINE_S = 120.0
BENCH_DEADLINE_S = 150.0
HANG_DEADLINE_S = 10.0  # what the kernel that never ends is given, its compiler included
RESERVED = 0.4  # of the time, for what comes behind the quick tier
PASSING = ("silu_mul/flat", "1000")  # the case behind the bad ones: its bits say whether they spoilt anything
# Kernel, kind and shape; what a processor is timed with exercises the path and no more.
TIMED = (
    ("matvec/coalesced", "Q4_K", "14336x4096"),
    ("matvec/coalesced", "Q8_0", "4096x4096"),
    ("mul_mm/reference", "Q4_K", "2048x2048x128"),
)
TIMED_ON_A_PROCESSOR = (
    ("matvec/coalesced", "Q4_K", "64x1024"),
    ("matvec/coalesced", "Q8_0", "64x1024"),
    ("mul_mm/reference", "Q4_K", "64x256x33"),
)


@dataclass(frozen=True)
class Wanted:
    """What a selftest was told."""

    backend: str
    device: Device
    bundle: Path
    minutes: float = 5.0


@dataclass(frozen=True)
class Step:
    """How one part of it ended."""

    name: str
    good: bool
    text: str


def run(wanted: Wanted, say: Callable[[str], None]) -> tuple[Step, ...]:
    """The steps that were taken, the last one the bundle; a board that isn't admitted runs nothing else."""
    steps: list[Step] = [
        Step("probe", True, f"{wanted.device.name} ({wanted.device.uuid}), {wanted.backend}")
    ]

    def done(step: Step) -> None:
        steps.append(step)
        say(line_of(step))

    began = time.monotonic()
    say(line_of(steps[0]))
    done(_admission(wanted))
    if not steps[-1].good:
        return tuple(steps)
    writer = bundle.Writer(wanted.bundle)
    try:
        done(_quick(wanted, writer))
        for words in TIMED_ON_A_PROCESSOR if wanted.backend == "host" else TIMED:
            late = time.monotonic() - began > 60 * wanted.minutes
            done(_late(words) if late else _benchmark(wanted, writer, *words))
        done(_survives(wanted, "crash", Verdict.CRASH, DEADLINE_S))
        done(_survives(wanted, "hang", Verdict.TIMEOUT, HANG_DEADLINE_S))
    finally:
        writer.close()
    done(_read_back(wanted.bundle))
    return tuple(steps)


def table(steps: Iterable[Step]) -> Iterator[str]:
    yield from map(line_of, steps)


def line_of(step: Step) -> str:
    return f"{step.name:<10} {'ok' if step.good else 'BAD':<4} {step.text}"


@contextmanager
def _slot(wanted: Wanted) -> Iterator[Isolated]:
    """A slot on the board, which nobody else has meanwhile."""
    with held(wanted.device) as lock, closing(Isolated(holds=lock.descriptor)) as slot:
        yield slot


def _admission(wanted: Wanted) -> Step:
    with _slot(wanted) as slot:
        wrong = admit(slot, wanted.device, wanted.backend)
    known = "a known answer was right to the bit, a kernel known to be wrong was found"
    return Step("admission", not wrong, wrong or known)


def _quick(wanted: Wanted, writer: bundle.Writer) -> Step:
    """The quick tier in both builds, a case of every cell first, until the time for it is over."""
    cases = most_valuable_first(catalog.expand(Selection()))
    counts: Counter[Verdict] = Counter()

    def take(evidence: Evidence) -> None:
        writer.append(evidence)
        writer.sync()
        counts[evidence.verdict] += 1

    began = time.monotonic()
    minutes = wanted.minutes * (1 - RESERVED)
    order = Order(wanted.backend, wanted.device, deadline_s=DEADLINE_S, minutes=minutes)
    unstarted = run_cases(cases, order, take)
    took_s = time.monotonic() - began
    told = (
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]) or "nothing ran"
    )
    pace = 60 * sum(counts.values()) / took_s
    return Step(
        "quick",
        counts[Verdict.PASS] > 0 and not any(verdict.bad for verdict in counts),
        f"{told} of {len(cases)} cases in {took_s:.0f} s, {pace:.0f} a minute; {unstarted} not started",
    )


def _benchmark(wanted: Wanted, writer: bundle.Writer, kernel: str, kind: str, shape: str) -> Step:
    name = f"{kernel} {kind} {shape}"
    with _slot(wanted) as slot:
        asked = replace(_asked(wanted, kernel, kind, shape, Build.DEFAULT), bench=True)
        line = replace(slot.run(asked, BENCH_DEADLINE_S), origin="bundle")
    writer.append(line)
    found = line.benchmark
    if found is None:
        return Step(
            "benchmark", not line.verdict.bad, f"{name}: {line.verdict}, not timed {line.reason}".rstrip()
        )
    least = "" if wanted.backend != "host" else ", which says nothing about a GPU"
    if not least and found.least and found.share_of_least is not None:
        least = f", {found.share_of_least:.0%} of the least limit, {found.least.name}"
    doubt = f"; no valid benchmark: {found.refused}" if found.refused else ""
    speed = f"{found.spread.median_us:,.1f} µs ± {found.spread.mad_us:.1f}, {found.gb_per_s:,.1f} GB/s"
    return Step("benchmark", not line.verdict.bad, f"{name}: {speed}{least}{doubt}")


def _late(words: tuple[str, str, str]) -> Step:
    return Step("benchmark", True, f"{' '.join(words)}: not started, the time is over")


def _survives(wanted: Wanted, name: str, verdict: Verdict, deadline_s: float) -> Step:
    """A kernel that is bad on purpose between two good cases, whose bits must be the same."""
    with _slot(wanted) as slot:
        before = slot.run(_asked(wanted, PASSING[0], "", PASSING[1], Build.EXACT), DEADLINE_S)
        began = time.monotonic()
        bad = slot.run(_on_purpose(wanted, name), deadline_s)
        ended = time.monotonic()
        after = slot.run(_asked(wanted, PASSING[0], "", PASSING[1], Build.EXACT), DEADLINE_S)
        again_s = time.monotonic() - ended
    same = before.verdict is after.verdict is Verdict.PASS and before.output_digest == after.output_digest
    good = bad.verdict is verdict and same
    neighbour = "the next case has its bits" if same else f"the next case: {after.verdict} {after.reason}"
    text = f"{bad.verdict} after {ended - began:.1f} s, {neighbour} after {again_s:.1f} s more ({bad.reason})"
    return Step(name, good, text)


def _asked(wanted: Wanted, kernel: str, kind: str, shape: str, build: Build) -> Request:
    chosen = Selection(kernels=(kernel,), kinds=(kind,) if kind else (), shapes=(shape,), builds=(build,))
    return request(catalog.expand(chosen)[0], Order(wanted.backend, wanted.device))


@cache
def on_purpose() -> Catalog:
    """The catalog with the kernels that are bad on purpose."""
    folder = files(__name__)
    names = [one.name for one in folder.iterdir() if one.name.endswith((".cu", ".toml"))]
    return declared.load(Pack.of({name: folder.joinpath(name).read_bytes() for name in names}))


def _on_purpose(wanted: Wanted, name: str) -> Request:
    found = on_purpose()
    with registry.searching(found.kernels):
        chosen = Selection(
            kernels=(f"silu_mul/on_purpose_{name}",), shapes=(PASSING[1],), builds=(Build.EXACT,)
        )
        (item,) = catalog.expand(chosen)
    address = packs.keep(found.pack, packs.store()).name
    return request(Planned(item.case, 1), Order(wanted.backend, wanted.device, pack=address))


def _read_back(path: Path) -> Step:
    try:
        found = bundle.read(path)
    except FarmError as error:
        return Step("bundle", False, str(error))
    return Step("bundle", not found.torn, f"{path}: {len(found.evidence)} lines, {found.nbytes:,} bytes")
