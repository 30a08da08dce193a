"""What a board does with something plain, measured beside a benchmark."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from kernels import registry
from kernels.benchmark import Mark, spread
from kernels.model import Case, Plan, Role
from workers.backend import CannotRun
from workers.effort import Bench, bytes_of, launch_bound
from workers.yardsticks import YARDSTICKS, Yardstick, dense

DENSE_OPS = ("matvec", "mul_mm")  # of one matrix, which a dense product of its size is beside
DENSE = {"gemm f16": "f2", "gemm f32": "f4"}


def measured(case: Case, bench: Bench) -> tuple[tuple[Mark, ...], tuple[str, ...]]:
    """The marks, and a note for each that could not be had."""
    found: list[Mark] = []
    notes: list[str] = []
    for name, plan, yardstick in plans(case, bench):
        try:
            found.append(_mark(name, plan, yardstick, bench))
        except CannotRun as error:
            notes.append(f"no {name}: {error}")
    return tuple(found), tuple(notes)


def plans(case: Case, bench: Bench) -> list[tuple[str, Plan, Yardstick | None]]:
    """Name, plan and, where it is one, yardstick of each mark."""
    found: list[tuple[str, Plan, Yardstick | None]] = [
        (one.name, one.over(bench.effort.mark_bytes), one) for one in YARDSTICKS
    ]
    if case.op in DENSE_OPS:
        sizes = dict(case.shape.axes)
        rows, cols, batch = sizes["rows"], sizes["cols"], sizes.get("batch", 1)
        found += [(name, dense(rows, cols, batch, dtype), None) for name, dtype in DENSE.items()]
    return found


def _mark(name: str, plan: Plan, yardstick: Yardstick | None, bench: Bench) -> Mark:
    given = [buffer for buffer in plan.buffers if buffer.role is Role.IN]
    count = bench.copies_of(sum(buffer.nbytes for buffer in given))
    random = np.random.default_rng(secrets.randbits(64))
    copies = [_numbers(random, plan) for _ in range(count)]
    with registry.searching({yardstick.id: yardstick} if yardstick else {}):
        timing, rounds = bench.time(plan, copies)
    if why := launch_bound(timing):
        raise CannotRun(why)
    if yardstick:
        want = yardstick.sums(plan.buffer("x").view(copies[rounds.chosen % count]["x"]))
        if not np.array_equal(plan.buffer("out").view(timing.run.images["out"]), want):
            raise CannotRun("what it put out is wrong")
    return Mark(name, bytes_of(plan), spread(timing.pass_us))


def _numbers(random: np.random.Generator, plan: Plan) -> Mapping[str, np.ndarray]:
    """Random images of what a mark reads: words for the yardsticks, floats in [0, 1) for dense products."""
    of_x = plan.buffer("x").view(np.zeros(plan.buffer("x").nbytes, np.uint8)).dtype
    images = {}
    for buffer in plan.buffers:
        if buffer.role is Role.IN and of_x.kind == "f":
            images[buffer.name] = (
                random.random(buffer.nbytes // of_x.itemsize, np.float32).astype(of_x).view("u1")
            )
        elif buffer.role is Role.IN:
            images[buffer.name] = np.frombuffer(random.bytes(buffer.nbytes), np.uint8)
    return images
