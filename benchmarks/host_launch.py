"""Times the host runtime against plain C of the same maths: Q4_K matvec, Q4_0 mul_mm, a RMSNorm."""

from __future__ import annotations

import argparse
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

from workers.host import compiler
from workers.host.memory import Arena, GuardedBuffer
from workers.host.module import Argument, Module, Size

HERE = Path(__file__).parent / "host"


@dataclass(frozen=True)
class Subject:
    """One kernel, its launch, and the plain C function of the same name that computes the same."""

    name: str
    grid: Size
    block: Size
    inputs: tuple[int, ...]  # bytes of each input buffer
    outputs: int  # float32 elements
    scalars: tuple[int, ...]
    shared_bytes: int = 0


MATVEC = Subject("matvec_q4_k", (512, 1, 1), (256, 1, 1), (4096 * 16 * 144, 4096 * 4), 4096, (4096, 4096))
MUL_MM = Subject(
    "mul_mm_q4_0", (2, 4, 1), (256, 1, 1), (256 * 32 * 18, 256 * 1024 * 4), 256 * 256, (256, 1024, 256)
)
NORM = Subject("rmsnorm", (1, 1, 1), (256, 1, 1), (4096 * 4, 4096 * 4), 4096, (4096,))


def fill(subject: Subject, arena: Arena) -> list[GuardedBuffer]:
    """Random bytes as weights with small scales, uniform activations."""
    random = np.random.default_rng(1)
    buffers = []
    for i, nbytes in enumerate(subject.inputs):
        if i == 0 and subject is not NORM:
            raw = random.integers(0, 256, nbytes, np.uint8)
            block, scales = (144, (1, 3)) if subject is MATVEC else (18, (1,))
            for scale in scales:
                raw.reshape(-1, block)[:, scale] = 0x2C
            buffers.append(arena.place("weights", raw))
        else:
            buffers.append(arena.place(f"x{i}", random.uniform(-1, 1, nbytes // 4).astype(np.float32)))
    return [*buffers, arena.allocate("out", 4 * subject.outputs)]


def median_ms(run: Callable[[], object], turns: int) -> float:
    """The median of some turns after one that doesn't count."""
    run()
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def plain_c(folder: Path) -> ctypes.CDLL:
    """The loops of plain.c at -O3 for this CPU, without contraction."""
    found = compiler.find()
    out = folder / "plain.so"
    words = [*found.command, "-x", "c", "-O3", found.native, "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*words, str(HERE / "plain.c"), "-lm", "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def measure(subject: Subject, plain: ctypes.CDLL, cache: Path, turns: int) -> None:
    """Prints one line: plain C, then each build and number of workers, and whether the exact bits agree."""
    arena = Arena()
    buffers = fill(subject, arena)
    args: list[Argument] = [*buffers, *map(np.int32, subject.scalars)]
    function = plain[subject.name]
    words = [ctypes.c_void_p(b.address) for b in buffers] + [ctypes.c_int(n) for n in subject.scalars]
    base = median_ms(lambda: function(*words), turns)
    want = buffers[-1].view.copy()
    print(f"{subject.name:12} plain {base:8.3f} ms", end="")
    text = (HERE / f"{subject.name}.cu").read_text(encoding="utf8")
    for build in compiler.BUILDS:
        module = Module(compiler.build(text, f"{subject.name}.cu", build, cache))
        for workers in (1, 2):
            size = (subject.grid, subject.block, subject.shared_bytes)
            spent = median_ms(partial(module.launch, subject.name, *size, args, workers=workers), turns)
            print(f"  {build}/{workers} {spent:8.3f} ms ({spent / base:.2f}x)", end="")
        if build == "exact":
            print(f" same bits: {bool((buffers[-1].view == want).all())}", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        plain = plain_c(Path(folder))
        for subject in (MATVEC, MUL_MM, NORM):
            measure(subject, plain, Path(folder), turns)


if __name__ == "__main__":
    main()
