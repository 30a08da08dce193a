"""A plan on a board over and over, timed by its own events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.model import Buffer, Plan, Role
from workers.backend import filled
from workers.cuda import memory
from workers.cuda.board import Board, Spans
from workers.cuda.calls import Call
from workers.cuda.code import Code
from workers.cuda.driver import Driver
from workers.cuda.errors import During
from workers.cuda.execution import report
from workers.timed import BoardState, Rounds, Timing, is_found_as_given, nobodys, rewritten

Images = Mapping[str, np.ndarray]
Codes = tuple[Code | None, ...]


@dataclass(frozen=True)
class Copy:
    """One set of buffers, and the plan's launches on it."""

    spans: Spans
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Course:
    """What passes go through: inputs in turn, and outputs that change places with every round of them.

    So an output holds what other inputs gave, whichever pass comes next, or numbers of nobody's where none
    has written yet: a launch that goes by what it finds there is wrong in the pass that is judged, and can't
    know which that is.
    """

    straight: tuple[Copy, ...]  # each with its set's own outputs: warm-ups, and every other round
    shifted: tuple[Copy, ...]  # each with the outputs of the set behind it

    def warm(self, number: int) -> Copy:
        return self.straight[number % len(self.straight)]

    def timed(self, number: int) -> Copy:
        sets = (self.shifted, self.straight)[number // len(self.straight) % 2]
        return sets[number % len(sets)]


@dataclass(frozen=True)
class Chosen:
    """The pass that is judged, as any other but for what a launch may count on finding in a buffer."""

    number: int
    copy: Copy
    aside: Spans  # where its outputs are copied to as soon as it is done


def timed(
    board: Board,
    plan: Plan,
    copies: Sequence[Images],
    rounds: Rounds,
    turn: int,
    state: Callable[[], BoardState],
) -> Timing:
    """See Timed.time."""
    codes, given = board.codes(plan), copies[rounds.chosen % len(copies)]
    board.modules.begin_case()
    owned: list[memory.Span] = []
    try:
        with board.doing(During.ELSE):
            memory.demand_room(plan, len(copies) + 1, board.driver, board.residents)
            before = {name: nobodys(plan.buffer(name)) for name in rewritten(plan)}
            places = [_placed(board, plan.buffers, {**images, **before}, turn, owned) for images in copies]
            written = [buffer for buffer in plan.buffers if buffer.role is not Role.IN]
            spare = _placed(board, written, given, turn, owned)
        course = _course(board, plan, codes, places)
        chosen = _chosen(board, plan, codes, course, spare, rounds.chosen)
        with board.doing(During.LAUNCH):
            _warm_up(board, plan, course, rounds)
            began = state()
            batches = [_batch(board.driver, plan, course, chosen, n, rounds) for n in range(rounds.batches)]
            ended = state()
        with board.doing(During.ELSE):
            found, guards = _fetched(board, plan, given, course, chosen)
    finally:
        for span in owned:
            if not board.dead:
                board.allocator.free(span)
    launches = tuple(call.record for call in chosen.copy.calls)
    pass_us, queue_us = zip(*batches, strict=True)
    run = report(board, plan, codes, found, guards, launches, 0.0)
    return Timing(pass_us, run, began, ended, queue_us)


def _placed(
    board: Board, buffers: Sequence[Buffer], images: Images, turn: int, owned: list[memory.Span]
) -> Spans:
    """Buffers aligned as a plain allocation is: what is timed is what an engine would run."""
    spans = {}
    for buffer in buffers:
        image = images[buffer.name] if buffer.name in images else filled(buffer, turn)
        spans[buffer.name] = board.place(buffer, image, memory.GUARD_BYTES)
        owned.append(spans[buffer.name])
    return spans


def _course(board: Board, plan: Plan, codes: Codes, places: list[Spans]) -> Course:
    behind = [*places[1:], *places[:1]]
    moved = [{name: spans[name] for name in rewritten(plan)} for spans in behind]
    mixed = [own | others for own, others in zip(places, moved, strict=True)]
    ready = [Copy(spans, board.calls(plan, codes, spans)) for spans in (*places, *mixed)]
    return Course(tuple(ready[: len(places)]), tuple(ready[len(places) :]))


def _chosen(board: Board, plan: Plan, codes: Codes, course: Course, spare: Spans, number: int) -> Chosen:
    aside = {name: spare[name] for name in rewritten(plan)}
    as_given = {buffer.name: spare[buffer.name] for buffer in plan.buffers if is_found_as_given(buffer)}
    spans = course.timed(number).spans | as_given
    return Chosen(number, Copy(spans, board.calls(plan, codes, spans)), aside)


def _warm_up(board: Board, plan: Plan, course: Course, rounds: Rounds) -> None:
    """Set-up launches once for every set, then passes over the sets in turn."""
    for one in course.straight:
        for call in one.calls[: plan.setup]:
            call.queue()
    for number in range(rounds.warmups):
        for call in course.warm(number).calls[plan.setup :]:
            call.queue()
    board.driver.wait()


def _batch(
    driver: Driver, plan: Plan, course: Course, chosen: Chosen, batch: int, rounds: Rounds
) -> tuple[float, float]:
    """Microseconds of a pass by the board, and of queueing it here.

    The board has nothing to do when a batch begins: where the queue is full, queueing waits for the board.
    """
    marks, began = [driver.event()], time.perf_counter()
    for number in range(batch * rounds.passes, (batch + 1) * rounds.passes):
        one = chosen.copy if number == chosen.number else course.timed(number)
        for call in one.calls[plan.setup :]:
            call.queue()
        if number == chosen.number:
            marks.append(driver.event())
            for name, span in chosen.aside.items():
                driver.copy(span.base, one.spans[name].base, span.whole)
            marks.append(driver.event())
    queue_us = 1e6 * (time.perf_counter() - began)
    marks.append(driver.event())
    driver.wait()
    spent_us = sum(driver.elapsed_us(*pair) for pair in zip(marks[::2], marks[1::2], strict=True))
    return spent_us / rounds.passes, queue_us / rounds.passes


def _fetched(
    board: Board, plan: Plan, given: Images, course: Course, chosen: Chosen
) -> tuple[dict[str, np.ndarray], list[str]]:
    """What the chosen pass left in its buffers, and the guard bands of all that may be written."""
    found: dict[str, np.ndarray] = {}
    guards = []
    for buffer in plan.buffers:
        span = chosen.aside.get(buffer.name, chosen.copy.spans[buffer.name])
        image, lines = board.fetch(buffer.name, span)
        same = buffer.name in given and np.array_equal(image, given[buffer.name])
        found[buffer.name] = given[buffer.name] if same else image
        guards += lines
        for one in course.straight if buffer.role is not Role.IN else ():
            guards += board.fetch(buffer.name, one.spans[buffer.name])[1]
    return found, guards
