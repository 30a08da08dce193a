"""A plan on a board, once: buffers up, launches in a chain, buffers down."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kernels.evidence import LaunchRecord
from kernels.model import Plan
from workers.backend import Run
from workers.cuda import memory
from workers.cuda.board import Board, Spans, image_of
from workers.cuda.calls import Call
from workers.cuda.code import Code
from workers.cuda.errors import During


def run(board: Board, plan: Plan, images: Mapping[str, np.ndarray], turn: int) -> Run:
    """Executes the plan once; see Backend.run."""
    began = time.perf_counter()
    codes = board.codes(plan)
    compile_us = (time.perf_counter() - began) * 1e6
    if turn == 0:
        board.modules.begin_case()
    with board.doing(During.ELSE):
        memory.demand_room(plan, 1, board.driver, board.residents)
        placed = _upload(board, plan, images, turn)
    try:
        launches = chain(board, board.calls(plan, codes, placed.spans))
        with board.doing(During.ELSE):
            found, guards = _download(board, plan, images, placed)
    finally:
        _release(board, placed)
    return report(board, plan, codes, found, guards, launches, compile_us)


def report(
    board: Board,
    plan: Plan,
    codes: tuple[Code | None, ...],
    images: Mapping[str, np.ndarray],
    guards: list[str],
    launches: tuple[LaunchRecord, ...],
    compile_us: float,
) -> Run:
    """What the contract wants to know of a run."""
    records = {code.symbol: code.record for code in codes if code and code.record is not None}
    return Run(
        images=images,
        launches=launches,
        guards=tuple(guards),
        compiler=board.compiler(plan),
        flags=" ".join(board.flags(plan)),
        compile_us=compile_us,
        builds=tuple(records.values()),
        approximate=True,
    )


def chain(board: Board, calls: tuple[Call, ...]) -> tuple[LaunchRecord, ...]:
    """Queues every call, an event between each two, and waits once; records with the board's own times."""
    driver = board.driver
    with board.doing(During.LAUNCH):
        events = [driver.event()]
        for call in calls:
            call.queue()
            events.append(driver.event())
        driver.wait()
        times_us = [driver.elapsed_us(*pair) for pair in pairwise(events)]
    return tuple(replace(call.record, elapsed_us=spent) for call, spent in zip(calls, times_us, strict=True))


@dataclass(frozen=True)
class Placed:
    """Where a plan's buffers lie, and which of them stay there."""

    spans: Spans
    resident: frozenset[str]


def _upload(board: Board, plan: Plan, images: Mapping[str, np.ndarray], turn: int) -> Placed:
    """Every buffer on the board; a large input that is there already isn't sent again."""
    spans: Spans = {}
    keys: dict[str, str] = {}
    try:
        for buffer in plan.buffers:
            image = image_of(buffer, images, turn)
            key = board.residents.key(buffer, image)
            span = board.residents.get(key) or board.place(
                buffer, image, memory.front_bytes(buffer.align, turn)
            )
            spans[buffer.name] = span
            if key:
                keys[buffer.name] = key
                board.residents.keep(key, span)
        board.residents.shrink(but=keys.values())
    except BaseException:
        _release(board, Placed(spans, frozenset(keys)))
        raise
    return Placed(spans, frozenset(keys))


def _download(
    board: Board, plan: Plan, images: Mapping[str, np.ndarray], placed: Placed
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Every buffer as it is now. An input that nobody wrote to is the image that was given."""
    found, guards = {}, []
    for buffer in plan.buffers:
        span = placed.spans[buffer.name]
        image, lines = board.fetch(buffer.name, span)
        given = images.get(buffer.name)
        same = given is not None and np.array_equal(image, given)
        found[buffer.name] = given if given is not None and same else image
        guards += lines
        if buffer.name in placed.resident and (lines or not same):
            board.residents.drop(span)
    return found, guards


def _release(board: Board, placed: Placed) -> None:
    """Frees what doesn't stay; a context that is gone took everything with it."""
    for name, span in placed.spans.items():
        if not board.dead and name not in placed.resident:
            with board.doing(During.ELSE):
                board.allocator.free(span)
