"""A slot of a simulated board: answers by the plan, in a child process only where that is to die or hang."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace

from kernels.evidence import Evidence, Verdict
from kernels.model import Device
from workers.agent import Slot
from workers.backend import Backend
from workers.clock import wall_clock
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.isolate import Isolated
from workers.request import Request
from workers.runner import Clock, run_case
from workers.sim.plan import Fault, SimPlan

SAYS = "simulated"
FAULT = "fault"  # the key of a fingerprint by which a backend hears what it is to do
IN_CHILD = (Fault.CRASH, Fault.HANG)
KEPT = 4096  # answers that a slot remembers


class SimSlot:
    """Runs one case at a time; the same case is computed once, whatever came of it."""

    def __init__(
        self,
        plan: SimPlan,
        backend: Backend,
        clock: Clock = wall_clock,
        sleep: Callable[[float], None] = time.sleep,
        make_child: Callable[[], Slot] = Isolated,
    ) -> None:
        self._plan = plan
        self._backend = backend
        self._clock = clock
        self._sleep = sleep
        self._child = make_child()  # starts no process before it is used
        self._images = ImageCache(FileStore())
        self._answers: dict[tuple[str, ...], Evidence] = {}

    def start(self) -> None:
        """Nothing: the child starts when a case needs one."""

    def run(self, request: Request, deadline_s: float) -> Evidence:
        """The line that the plan wants of this board for this attempt."""
        board = request.device
        fault = self._plan.fault(board.slug, request.case.id, request.attempt_id)
        started_us = self._clock()
        if fault is Fault.SLOW:
            self._sleep(self._plan.slow_s)
        if request.pack or fault in IN_CHILD:  # a user's Python runs in a child alone
            line = self._die_or_hang(request, fault, deadline_s)
        else:
            line = self._answer(request, Fault.WRONG if fault is Fault.FLAKY else fault)
        return replace(
            line,
            evidence_id=request.evidence_id,
            attempt_id=request.attempt_id,
            device=board,
            verdict=Verdict.PASS if board.slug in self._plan.cheats else line.verdict,
            output_digest=foreign(line.output_digest, board) if fault is Fault.LIE else line.output_digest,
            reason=f"{SAYS}: {fault}{': ' if line.reason else ''}{line.reason}",
            started_us=started_us,
            finished_us=self._clock(),
        )

    def close(self) -> None:
        self._child.close()

    def _die_or_hang(self, request: Request, fault: Fault, deadline_s: float) -> Evidence:
        """What a child comes to; one that is to hang runs the case first, so that nothing else takes time."""
        board = request.device
        if fault is Fault.HANG:
            self._child.run(replace(request, device=told_to(board, Fault.NONE)), deadline_s)
            deadline_s = self._plan.deadline_s
        return self._child.run(replace(request, device=told_to(board, fault)), deadline_s)

    def _answer(self, request: Request, fault: Fault) -> Evidence:
        """What running the case gives; neither attempt nor board is part of it."""
        kind = Fault.WRONG if fault is Fault.WRONG else Fault.NONE
        digests = (request.source_digest, request.inputs_digest)
        key = (request.case.id, *digests, str(request.repeats), request.rule, kind)
        if key not in self._answers:
            if len(self._answers) >= KEPT:
                self._answers.clear()
            told = replace(request, device=told_to(request.device, kind))
            self._answers[key] = run_case(told, self._backend, self._images, clock=self._clock)
        return self._answers[key]


def told_to(board: Device, fault: Fault) -> Device:
    """A board as the backend gets it, with what it is to do."""
    return replace(board, fingerprint=(*board.fingerprint, (FAULT, fault.value)))


def foreign(digest: str, board: Device) -> str:
    """An output digest that no other board has."""
    return hashlib.sha256(f"{digest} {board.slug}".encode()).hexdigest()
