"""A plan on a board over and over, timed by its own events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.model import Plan, Role
from workers.cuda import memory
from workers.cuda.board import Board, Spans, image_of
from workers.cuda.calls import Call
from workers.cuda.errors import During
from workers.cuda.execution import report
from workers.timed import BoardState, Rounds, Timing

Images = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Copy:
    """One set of buffers, and the plan's launches on it."""

    spans: Spans
    calls: tuple[Call, ...]


def timed(
    board: Board,
    plan: Plan,
    copies: Sequence[Images],
    rounds: Rounds,
    turn: int,
    state: Callable[[], BoardState],
) -> Timing:
    """See Timed.time."""
    codes, turned = board.codes(plan), rounds.chosen % len(copies)
    board.modules.begin_case()
    owned: list[memory.Span] = []
    try:
        with board.doing(During.ELSE):
            memory.demand_room(plan, len(copies) + 1, board.driver, board.residents)
            places = [_placed(board, plan, images, turn, {}, owned) for images in copies]
            shared = {b.name: places[turned][b.name] for b in plan.buffers if b.role is Role.IN}
            own = _placed(board, plan, copies[turned], turn, shared, owned)
        sets = [Copy(spans, board.calls(plan, codes, spans)) for spans in places]
        chosen = Copy(own, board.calls(plan, codes, own))
        with board.doing(During.LAUNCH):
            _warm_up(board, plan, sets, chosen, rounds)
            before = state()
            pass_us = _batches(board, plan, sets, chosen, rounds)
            after = state()
        with board.doing(During.ELSE):
            found, guards = _fetched(board, plan, copies[turned], sets, chosen)
    finally:
        for span in owned:
            if not board.dead:
                board.allocator.free(span)
    launches = tuple(call.record for call in chosen.calls)
    return Timing(pass_us, report(board, plan, codes, found, guards, launches, 0.0), before, after)


def _placed(
    board: Board, plan: Plan, images: Images, turn: int, shared: Spans, owned: list[memory.Span]
) -> Spans:
    """Buffers aligned as a plain allocation is: what is timed is what an engine would run."""
    spans = dict(shared)
    for buffer in plan.buffers:
        if buffer.name not in spans:
            spans[buffer.name] = board.place(buffer, image_of(buffer, images, turn), memory.GUARD_BYTES)
            owned.append(spans[buffer.name])
    return spans


def _warm_up(board: Board, plan: Plan, sets: list[Copy], chosen: Copy, rounds: Rounds) -> None:
    """Set-up launches once for every set, then passes over the sets in turn, the chosen one left out."""
    for one in (*sets, chosen):
        for call in one.calls[: plan.setup]:
            call.queue()
    for number in range(rounds.warmups):
        for call in sets[number % len(sets)].calls[plan.setup :]:
            call.queue()
    board.driver.wait()


def _batches(board: Board, plan: Plan, sets: list[Copy], chosen: Copy, rounds: Rounds) -> tuple[float, ...]:
    driver, events = board.driver, []
    for batch in range(rounds.batches):
        first = driver.event()
        for number in range(batch * rounds.passes, (batch + 1) * rounds.passes):
            one = chosen if number == rounds.chosen else sets[number % len(sets)]
            for call in one.calls[plan.setup :]:
                call.queue()
        events.append((first, driver.event()))
    driver.wait()
    return tuple(driver.elapsed_us(*pair) / rounds.passes for pair in events)


def _fetched(
    board: Board, plan: Plan, given: Images, sets: list[Copy], chosen: Copy
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The chosen set's buffers, and the guard bands of all that may be written."""
    found: dict[str, np.ndarray] = {}
    guards = []
    for buffer in plan.buffers:
        image, lines = board.fetch(buffer.name, chosen.spans[buffer.name])
        same = buffer.name in given and np.array_equal(image, given[buffer.name])
        found[buffer.name] = given[buffer.name] if same else image
        guards += lines
        for one in sets if buffer.role is not Role.IN else ():
            guards += board.fetch(buffer.name, one.spans[buffer.name])[1]
    return found, guards
