"""Exams: a board proves itself with an answer that is known and with a kernel that is known to be wrong."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernels import registry, source
from kernels.evidence import Evidence, Rule
from kernels.model import Build, Seeded
from kernels.op import Kernel, LaunchKernel
from workers.boards import executes
from workers.exam import DEADLINE_S, Asked, exam_catalog, fault, questions
from workers.protocol import Hello, Lease

EVERY_JOBS = 1000  # of a worker, between two exams
PREFIX = "exam-"  # of an attempt id: no job is behind it
MOST_MACS = 10**7  # of a case that is settled by the twin, in the coordinator


@dataclass(frozen=True)
class Result:
    """How a worker's exam ended."""

    passed: bool
    reason: str  # what went wrong; empty where it passed


@dataclass
class Sitting:
    """One worker's exam: what was asked, and what is answered."""

    want: dict[str, Asked]  # by attempt id
    got: dict[str, Evidence] = field(default_factory=dict)


class Examiner:
    """Asks every worker at joining, and again after so many jobs; safe to call from several threads."""

    def __init__(self, every_jobs: int = EVERY_JOBS) -> None:
        self._every_jobs = every_jobs
        self._lock = threading.Lock()
        self._sittings: dict[str, Sitting] = {}  # by worker id
        self._left: dict[str, int] = {}  # jobs until a worker's next exam

    @property
    def workers(self) -> int:
        """How many are known."""
        return len(self._left.keys() | self._sittings.keys())

    def join(self, worker_id: str) -> None:
        """A worker that joins is examined first, whatever it was asked before."""
        with self._lock:
            self._sittings.pop(worker_id, None)
            self._left[worker_id] = 0

    def recall(self, worker_ids: Iterable[str]) -> None:
        """Has workers examined before they get another job."""
        with self._lock:
            self._left |= dict.fromkeys(worker_ids, 0)

    def is_due(self, hello: Hello) -> bool:
        """Whether the worker gets no jobs now; one that only compiles puts nothing out."""
        with self._lock:
            return self._left.get(hello.worker_id, 0) <= 0 and any(map(executes, hello.backends))

    def ask(self, hello: Hello) -> tuple[Lease, ...]:
        """The questions, with a fresh seed so that no answer can be an old one; nothing while one is open."""
        with self._lock:
            if hello.worker_id in self._sittings:
                return ()
        backend = next(name for name in reversed(hello.backends) if executes(name))
        want = {PREFIX + str(uuid.uuid4())[len(PREFIX) :]: one for one in questions()}
        with self._lock:
            self._sittings[hello.worker_id] = Sitting(want)
        return tuple(_lease(attempt_id, one, backend) for attempt_id, one in want.items())

    def held(self, worker_id: str) -> set[str]:
        """The questions that a worker has not answered."""
        with self._lock:
            sitting = self._sittings.get(worker_id)
            return set(sitting.want) - set(sitting.got) if sitting else set()

    def take(self, worker_id: str, lines: Iterable[Evidence]) -> Result | None:
        """Notes answers; the result once all are there."""
        with self._lock:
            sitting = self._sittings.get(worker_id)
            if sitting is None:
                return None
            sitting.got |= {one.attempt_id: one for one in lines if one.attempt_id in sitting.want}
            if set(sitting.got) != set(sitting.want):
                return None
            del self._sittings[worker_id]
            faults = [
                wrong
                for name, one in sitting.want.items()
                if (wrong := fault(sitting.got[name], one.verdict, one.output_digest))
            ]
            if not faults:
                self._left[worker_id] = self._every_jobs
            return Result(not faults, "; ".join(faults))

    def count(self, worker_id: str, jobs: int) -> None:
        with self._lock:
            if worker_id in self._left:
                self._left[worker_id] -= jobs

    def forget(self, worker_ids: Iterable[str]) -> None:
        """Workers that are gone; one that comes back is new."""
        with self._lock:
            for worker_id in worker_ids:
                self._sittings.pop(worker_id, None)
                self._left.pop(worker_id, None)


def is_question(attempt_id: str) -> bool:
    return attempt_id.startswith(PREFIX)


def _lease(attempt_id: str, asked: Asked, backend: str) -> Lease:
    case = asked.case
    with registry.searching(exam_catalog().kernels if asked.pack else {}):
        digest = source.digest(f"{case.op}/{case.kernel}", case.kinds, case.build)
    return Lease(
        attempt_id=attempt_id,
        job_id=0,
        campaign_id=0,
        case=case,
        backend=backend,
        source_digest=digest,
        inputs_digest="",
        repeats=1,
        rule=Rule.BOUND,
        deadline_s=DEADLINE_S,
        pack=asked.pack,
    )


def settles(line: Evidence) -> bool:
    """Whether the twin can say which of two output digests is right: one digest everywhere, and small."""
    case = line.case
    kernel = registry.built_in().get(f"{case.op}/{case.kernel}")
    if kernel is None or case.build is not Build.EXACT or not isinstance(case.x, Seeded):
        return False
    macs = 1
    for _, size in case.shape.axes:
        macs *= max(1, size)
    return macs <= MOST_MACS and isinstance(case.weights, Seeded) and _is_same_everywhere(kernel, case.kinds)


def _is_same_everywhere(kernel: Kernel, kinds: Sequence[str]) -> bool:
    parts = [registry.kernel(part) for part, _ in kernel.parts(tuple(kinds))]
    return all(isinstance(part, LaunchKernel) and not part.approximates for part in parts)
