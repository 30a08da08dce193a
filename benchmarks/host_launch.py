"""Times the catalog's kernels on the host runtime against plain C of the same maths, and checks the bits."""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from kernels import inputs, registry, source
from kernels.model import BufferArg, Build, Case, Plan, Role, Seeded, Shape
from kernels.op import Step
from workers.host import compiler
from workers.host.check import Checker
from workers.host.memory import Arena
from workers.host.module import Argument, Module

PLAIN = Path(__file__).parent / "host" / "plain.c"
TURNS = 11
ORDINARY = Seeded("ordinary", 0, inputs.FIXTURE_VERSION)


@dataclass(frozen=True)
class Subject:
    """A case of the catalog, and how much slower than plain C its launch may be; 0 sets no limit."""

    kernel: str
    kind: str
    shape: Shape
    limit: float = 0

    def case(self, build: Build) -> Case:
        op, name = self.kernel.split("/")
        kinds = (self.kind,) if self.kind else ()
        return Case(
            op, name, kinds, self.shape, ORDINARY, ORDINARY, build, scalars=registry.op(op).scalars_of(kinds)
        )


SUBJECTS = (
    Subject("matvec/coalesced", "Q4_K", Shape.of(rows=4096, cols=4096), 4),
    Subject("mul_mm/reference", "Q4_0", Shape.of(rows=256, cols=1024, batch=256), 6),
    Subject("rmsnorm/block", "", Shape.of(n=4096, rows=1)),
)
TINY = Subject("matvec/coalesced", "Q4_0", Shape.of(rows=9, cols=160))


class Bench:
    """One subject's plan over guarded buffers, as the host backend would launch it."""

    def __init__(self, subject: Subject, build: Build, cache: Path) -> None:
        case = subject.case(build)
        self.plan: Plan = registry.kernel(subject.kernel).plan(case)
        (self.launch,) = self.plan.launches
        self.images = inputs.images(case, self.plan, registry.op(case.op).operands(case))
        self.arena = Arena()
        for buffer in self.plan.buffers:
            given = self.images.get(buffer.name, np.zeros(buffer.nbytes, np.uint8))
            self.arena.place(buffer.name, given, buffer.align)
        text = source.text(subject.kernel, subject.kind)
        self.module = Module(compiler.build(text, f"{self.launch.entry}.cu", build.value, cache))

    def run(self, workers: int = 1, checker: Checker | None = None) -> None:
        launch = self.launch
        args: list[Argument] = [
            self.arena.buffers[arg.buffer] if isinstance(arg, BufferArg) else _number(arg.dtype, arg.value)
            for arg in launch.args
        ]
        size = launch.grid, launch.block, launch.dynamic_shared_bytes
        self.module.launch(launch.entry, *size, args, workers=workers, checker=checker)

    def out(self) -> bytes:
        (name,) = (buffer.name for buffer in self.plan.buffers if buffer.role is Role.OUT)
        return self.arena.buffers[name].view.tobytes()

    def plain(self, library: ctypes.CDLL) -> Callable[[], object]:
        """The plain C function of the launch's name over the same buffers."""
        words = [
            ctypes.c_void_p(self.arena.buffers[arg.buffer].address)
            if isinstance(arg, BufferArg)
            else _c_number(arg.dtype, arg.value)
            for arg in self.launch.args
        ]
        return partial(library[self.launch.entry], *words)

    def twin(self) -> bytes:
        kernel = registry.launch_kernel(self.launch.kernel)
        arrays = self.plan.arrays(self.launch, {**self.images, "out": np.zeros(len(self.out()), np.uint8)})
        kind = registry.kind(self.launch.kind) if self.launch.kind else None
        return kernel.twin(Step(arrays, self.launch.scalars, kind, "ordinary", True)).tobytes()


def _c_number(dtype: str, value: float) -> object:
    if dtype == "f4":
        return ctypes.c_float(value)
    return ctypes.c_int(int(value)) if dtype == "i4" else ctypes.c_long(int(value))


def _number(dtype: str, value: float) -> int | float:
    return float(value) if dtype == "f4" else int(value)


def medians_ms(clock: Callable[[], float], *runs: Callable[[], object], turns: int = TURNS) -> list[float]:
    """The median of each, taken in turns after one that doesn't count: all see the same machine."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(1 + turns):
        for run, spent in zip(runs, times, strict=True):
            start = clock()
            run()
            spent.append(1e3 * (clock() - start))
    return [statistics.median(spent[1:]) for spent in times]


def plain_c(folder: Path) -> ctypes.CDLL:
    """The loops of plain.c at -O3 for this CPU, without contraction."""
    found = compiler.find()
    out = folder / "plain.so"
    words = [*found.command, "-x", "c", "-O3", found.native, "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*words, str(PLAIN), "-lm", "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def measure(subject: Subject, library: ctypes.CDLL, cache: Path) -> str:
    """One line of figures, each with how many times plain C's it is."""
    exact, default = (Bench(subject, build, cache) for build in (Build.EXACT, Build.DEFAULT))
    demand_same_bits(exact, library)
    plain = exact.plain(library)
    base, *one = medians_ms(time.thread_time, plain, exact.run, default.run)
    wall, *two = medians_ms(time.perf_counter, plain, partial(exact.run, 2), partial(default.run, 2))
    cells = [
        f"{ms:.3f} ({ms / of:.2f}x)" for ms, of in zip([*one, *two], [base, base, wall, wall], strict=True)
    ]
    limit = f" (to stay below {subject.limit:g}x)" if subject.limit else ""
    name = f"{subject.kernel} {subject.kind} {subject.shape}"
    return f"{name}: plain C {base:.3f}; exact {cells[0]}{limit}, default {cells[1]}; " + (
        f"two workers by the clock: exact {cells[2]}, default {cells[3]}"
    )


def demand_same_bits(bench: Bench, library: ctypes.CDLL) -> None:
    """SystemExit unless plain C, launch and numpy twin give the same bits."""
    bench.plain(library)()
    plain = bench.out()
    bench.run()
    if not plain == bench.out() == bench.twin():
        raise SystemExit(
            f"{bench.launch.kernel} {bench.launch.kind}: launch, plain C and twin differ in bits"
        )


def main() -> None:
    print(f"{compiler.find().version}; medians of {TURNS}, ms of CPU time in one thread; x: times plain C")
    print("bits of launch (exact), plain C and numpy twin: compared, the same")
    with tempfile.TemporaryDirectory() as folder:
        library = plain_c(Path(folder))
        for subject in SUBJECTS:
            print(measure(subject, library, Path(folder)), flush=True)
        tiny = Bench(TINY, Build.EXACT, Path(folder))
        (spent,) = medians_ms(time.thread_time, tiny.run, turns=500)
        print(f"{TINY.kernel} {TINY.kind} {TINY.shape}: {1e3 * spent:.0f} us a launch")


if __name__ == "__main__":
    main()
