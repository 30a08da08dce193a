"""Runs one case on one device and writes what happened as evidence."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kernels import judge, registry, source
from kernels.errors import FarmError
from kernels.model import Build, Comparison, Evidence, Plan, Role, Rule, Verdict
from workers.backend import POISONS, Backend, CannotRun, KernelFault, Rejected, Run
from workers.image_cache import ImageCache, Images
from workers.request import Request
from workers.versions import versions

Clock = Callable[[], int]  # microseconds since the epoch

# What a raised error says about the kernel; the first class that fits counts.
VERDICTS: tuple[tuple[type[Exception], Verdict], ...] = (
    (CannotRun, Verdict.SKIP),
    (Rejected, Verdict.REJECT),
    (KernelFault, Verdict.CRASH),
)


def wall_clock() -> int:
    return time.time_ns() // 1000


def new_id() -> str:
    return str(uuid.uuid4())


@dataclass
class Draft:
    """Evidence in the making: what is known so far stays known when a later phase fails."""

    request: Request
    clock: Clock
    announce: Callable[[str], None]
    started_us: int = 0
    source_digest: str = ""
    inputs_digest: str = ""
    output_digest: str = ""
    comparison: Comparison | None = None
    rule_verdict: Verdict | None = None
    runs: list[Run] = field(default_factory=list)
    timings_us: dict[str, float] = field(default_factory=dict)
    _phase: str = ""
    _phase_us: int = 0

    def enter(self, phase: str) -> None:
        """Ends the running phase and begins another; a phase entered twice adds up."""
        now = self.clock()
        if self._phase:
            self.timings_us[self._phase] = self.timings_us.get(self._phase, 0.0) + now - self._phase_us
        self._phase, self._phase_us = phase, now
        if phase:
            self.announce(phase)

    def evidence(self, verdict: Verdict, reason: str) -> Evidence:
        self.enter("")
        request, first = self.request, self.runs[0] if self.runs else None
        return Evidence(
            request.evidence_id,
            request.case,
            request.case.id,
            self.source_digest,
            self.inputs_digest,
            self.output_digest,
            request.device,
            request.backend,
            verdict,
            one_line(reason),
            self.comparison,
            repeats=len(self.runs),
            launches=first.launches if first else (),
            compiler=first.compiler if first else "",
            flags=first.flags if first else "",
            started_us=self.started_us,
            finished_us=self.clock(),
            versions=versions(),
            attempt_id=request.attempt_id,
            rule=request.rule,
            rule_verdict=self.rule_verdict,
            substitutes=first.substitutes if first else (),
            timings_us=tuple(self.timings_us.items()),
        )


def run_case(
    request: Request,
    backend: Backend,
    images: ImageCache,
    clock: Clock = wall_clock,
    announce: Callable[[str], None] = lambda phase: None,
) -> Evidence:
    """Evidence for one case, whatever happens short of the end of this process."""
    draft = Draft(request, clock, announce, started_us=clock())
    try:
        verdict, reason = _run(draft, backend, images)
    except Exception as error:  # a kernel, its twin or the machine may fail in any way: it becomes evidence
        verdict, reason = blame(error)
    return draft.evidence(verdict, reason)


def blame(error: Exception) -> tuple[Verdict, str]:
    """The verdict that an error stands for, and its message; what isn't known as the kernel's is the farm's."""
    verdict = next((verdict for kind, verdict in VERDICTS if isinstance(error, kind)), Verdict.ERROR)
    expected = isinstance(error, FarmError)
    return verdict, str(error) if expected else f"{type(error).__name__}: {error}"


def one_line(text: str, limit: int = 500) -> str:
    return " ".join(text.split())[:limit]


def _run(draft: Draft, backend: Backend, cache: ImageCache) -> tuple[Verdict, str]:
    request, case = draft.request, draft.request.case
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    draft.source_digest = source.digest(kernel.id, case.kinds, case.build)
    if request.source_digest not in ("", draft.source_digest):
        return Verdict.ERROR, _differs("source", draft.source_digest, request.source_digest)
    if reason := registry.op(case.op).refuses(case) or kernel.refuses(case):
        return Verdict.SKIP, reason
    plan = kernel.plan(case)
    draft.enter("inputs")
    images = cache.images(case, plan)
    draft.inputs_digest = images.digest
    if request.inputs_digest not in ("", images.digest):
        return Verdict.ERROR, _differs("inputs", images.digest, request.inputs_digest)
    draft.enter("launch")
    for turn in range(turns(request, backend)):
        draft.runs.append(backend.run(plan, images.by_name, request.device, turn))
    draft.enter("compare")
    return _decide(draft, plan, images)


def turns(request: Request, backend: Backend) -> int:
    """How often a case runs: as asked, and in the exact build at least once in every execution order."""
    orders = backend.orders if request.case.build is Build.EXACT else 1
    return max(request.repeats, orders, 1)


def _differs(what: str, here: str, asked: str) -> str:
    return f"{what} digest {here[:12]} here, {asked[:12]} asked for: another catalog; update this worker"


def _decide(draft: Draft, plan: Plan, images: Images) -> tuple[Verdict, str]:
    """The first of: broken guards, what the judge says, written inputs, runs that differ."""
    request, first = draft.request, draft.runs[0]
    judged = judge.judge(request.case, plan, first.images, POISONS[0])
    comparison = judged.comparison
    draft.comparison, draft.output_digest = comparison, judged.output_digest
    faults = [fault for run in draft.runs for fault in run.guards]
    verdict, reason = (Verdict.FAIL, "; ".join(faults)) if faults else (comparison.verdict, comparison.reason)
    if verdict is Verdict.PASS:
        faults = [*written_inputs(plan, images.by_name, draft.runs), *differences(plan, draft.runs)]
        verdict, reason = (Verdict.FAIL, faults[0]) if faults else (verdict, reason)
    if request.rule is not Rule.BOUND:
        draft.rule_verdict = by_rule(verdict, comparison, request.rule, bool(faults))
    if request.output:
        save_output(plan, first, Path(request.output))
    return verdict, reason


def by_rule(verdict: Verdict, comparison: Comparison, rule: Rule, faults: bool) -> Verdict:
    """The second verdict; no rule excuses a broken guard, differing runs or a bad fixture."""
    if faults or verdict is Verdict.ERROR:
        return verdict
    return Verdict.PASS if comparison.passes(rule) else Verdict.FAIL


def written_inputs(plan: Plan, given: Mapping[str, np.ndarray], runs: Iterable[Run]) -> list[str]:
    """One line per input buffer that isn't what it was."""
    names = [buffer.name for buffer in plan.buffers if buffer.role is Role.IN]
    return [
        f"wrote to its input {name}"
        for run in runs
        for name in names
        if run.images[name] is not given[name] and not np.array_equal(run.images[name], given[name])
    ]


def differences(plan: Plan, runs: list[Run]) -> list[str]:
    """One line per buffer and run whose bits differ from the first run's; a NaN equals any NaN."""
    found = []
    for buffer in plan.buffers:
        if buffer.role is Role.IN:
            continue
        views = [np.ascontiguousarray(buffer.view(run.images[buffer.name])).reshape(-1) for run in runs]
        for turn, view in enumerate(views[1:], 1):
            where = np.flatnonzero(
                (_bits(views[0]) != _bits(view)) & ~((views[0] != views[0]) & (view != view))
            )
            if len(where):
                found.append(
                    f"nondeterministic: run {turn} differs from run 0 in {len(where)} of {view.size} elements "
                    f"of {buffer.name}, first at {where[0]}: {views[0][where[0]]} and {view[where[0]]}"
                )
    return found


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.itemsize}")


def save_output(plan: Plan, run: Run, path: Path) -> None:
    """Writes the plan's last output as .npy."""
    last = [buffer for buffer in plan.buffers if buffer.role is Role.OUT][-1]
    np.save(path, last.view(run.images[last.name]), allow_pickle=False)


def ended(request: Request, verdict: Verdict, reason: str, clock: Clock = wall_clock) -> Evidence:
    """Evidence for a case whose child can't write it any more, or that never ran."""
    draft = Draft(request, clock, lambda phase: None, started_us=clock())
    return draft.evidence(verdict, reason)
