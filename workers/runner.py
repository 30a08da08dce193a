"""Runs one case on one device and writes what happened as evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kernels import ids, inputs, judge, registry, source
from kernels.declared.mistake import Misdeclared
from kernels.dtypes import values
from kernels.errors import FarmError
from kernels.evidence import Comparison, Evidence, Rule, Verdict
from kernels.judge import Judged
from kernels.model import Build, Case, Plan, Role
from workers.backend import (
    POISONS,
    Backend,
    BoardFault,
    CannotRun,
    KernelFault,
    Overrun,
    Prepares,
    Rejected,
    Run,
    Toolchain,
    executes,
)
from workers.clock import wall_clock
from workers.image_cache import ImageCache, Images
from workers.machine import free_bytes
from workers.need import SMALL_BYTES, bytes_needed, too_large
from workers.request import SPOILED, Request
from workers.versions import versions

Clock = Callable[[], int]  # microseconds since the epoch

# What a raised error says about the kernel; the first class that fits counts.
VERDICTS: tuple[tuple[type[Exception], Verdict], ...] = (
    (CannotRun, Verdict.SKIP),
    (inputs.Unfit, Verdict.SKIP),
    (judge.NoTwin, Verdict.SKIP),
    (Misdeclared, Verdict.REJECT),
    (Rejected, Verdict.REJECT),
    (KernelFault, Verdict.CRASH),
    (Overrun, Verdict.TIMEOUT),
)


# What PASS means where nothing runs.
BUILT = "built, not run"
# Behind the number of runs of a kernel that is declared not to be deterministic.
ANY_BITS = "runs, each judged; declared not deterministic, so their bits aren't compared"


def new_id() -> str:
    return ids.new_id(wall_clock())


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
    frame_digest: str = ""
    comparison: Comparison | None = None
    rule_verdict: Verdict | None = None
    runs: list[Run] = field(default_factory=list)
    toolchain: tuple[str, str] = ("", "")  # compiler and flags
    setup: int = 0  # launches of the plan that only prepare weights
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

    def compiled(self) -> None:
        """Takes what compiling took out of the launch phase, and tells set-up launches of one run apart."""
        self.enter("")
        compile_us = sum(run.compile_us for run in self.runs)
        self.timings_us["launch"] = max(0.0, self.timings_us["launch"] - compile_us)
        self.timings_us["compile"] = self.timings_us.get("compile", 0.0) + compile_us
        if setup := self.runs[0].launches[: self.setup]:
            self.timings_us["setup"] = sum(launch.elapsed_us for launch in setup)

    def split(self, oracle_us: float, twin_us: float) -> None:
        """Takes oracle and twin out of the compare phase."""
        rest = self.timings_us["compare"] - oracle_us - twin_us
        self.timings_us |= {"oracle": oracle_us, "twin": twin_us, "compare": max(0.0, rest)}

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
            compiler=self.toolchain[0],
            flags=self.toolchain[1],
            started_us=self.started_us,
            finished_us=self.clock(),
            versions=versions(),
            attempt_id=request.attempt_id,
            rule=request.rule,
            rule_verdict=self.rule_verdict,
            substitutes=first.substitutes if first else (),
            timings_us=tuple(self.timings_us.items()),
            builds=first.builds if first else (),
            frame_digest=self.frame_digest,
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
    except Exception as error:  # noqa: BLE001 - kernel and twin may fail in any way: it becomes evidence
        verdict, reason = blame(error)
        if spoils(error):
            draft.announce(SPOILED)
    return draft.evidence(verdict, reason)


def blame(error: Exception) -> tuple[Verdict, str]:
    """The verdict that an error stands for, and its message; what isn't surely the kernel's is the farm's."""
    verdict = next((verdict for kind, verdict in VERDICTS if isinstance(error, kind)), Verdict.ERROR)
    expected = isinstance(error, FarmError)
    return verdict, str(error) if expected else f"{type(error).__name__}: {error}"


def spoils(error: Exception) -> bool:
    """Whether an error that is no CRASH leaves a process that no other case may run in."""
    return isinstance(error, Overrun) or (isinstance(error, BoardFault) and error.sticky)


def one_line(text: str, limit: int = 500) -> str:
    """A text in one line that every database keeps: without NUL, and without half of a surrogate pair."""
    plain = text.replace("\0", "␀").encode("utf8", "replace").decode("utf8")
    return " ".join(plain.split())[:limit]


def _run(draft: Draft, backend: Backend, cache: ImageCache) -> tuple[Verdict, str]:
    request, case = draft.request, draft.request.case
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    draft.source_digest = source.digest(kernel.id, case.kinds, case.build)
    if request.source_digest not in ("", draft.source_digest):
        return Verdict.ERROR, _differs("source", draft.source_digest, request.source_digest)
    if reason := registry.op(case.op).refuses(case) or kernel.refuses(case):
        return Verdict.SKIP, reason
    if case.build == Build.DECLARED and Build.DECLARED not in kernel.builds:
        return (
            Verdict.SKIP,
            f"{kernel.id} declares no flags of its own: it has no build {Build.DECLARED.value!r}",
        )
    if reason := kernel.refuses_device(request.device, executes(backend)):
        return Verdict.SKIP, reason
    plan = kernel.plan(case)
    if not executes(backend):
        return _build(draft, backend, plan)
    if reason := _lacks_memory(case, plan):
        return Verdict.SKIP, reason
    draft.enter("inputs")
    images = cache.images(case, plan)
    draft.inputs_digest = images.digest
    if request.inputs_digest not in ("", images.digest):
        return Verdict.ERROR, _differs("inputs", images.digest, request.inputs_digest)
    _launch(draft, backend, plan, images.by_name, turns(request, backend, plan))
    draft.enter("compare")
    return _decide(draft, plan, images)


def _lacks_memory(case: Case, plan: Plan) -> str:
    """Why the case doesn't fit here; empty if it does, or is small."""
    return too_large(case, plan, free_bytes()) if bytes_needed(case, plan) > SMALL_BYTES else ""


def _launch(draft: Draft, backend: Backend, plan: Plan, images: Mapping[str, np.ndarray], turns: int) -> None:
    draft.setup = plan.setup
    if isinstance(backend, Prepares):
        draft.enter("open")
        backend.open(draft.request.device)
        draft.enter("compile")
    if isinstance(backend, Toolchain):
        draft.toolchain = backend.toolchain(plan.build, plan.options)
    if isinstance(backend, Prepares):
        backend.prepare(plan, draft.request.device)
    draft.enter("launch")
    for turn in range(turns):
        draft.runs.append(backend.run(plan, images, draft.request.device, turn))
    draft.toolchain = draft.runs[0].compiler, draft.runs[0].flags
    if draft.runs[0].builds:
        case = draft.request.case
        draft.frame_digest = source.frame_digest(f"{case.op}/{case.kernel}", case.kinds, case.build)
    draft.compiled()


def _build(draft: Draft, backend: Backend, plan: Plan) -> tuple[Verdict, str]:
    """PASS says that every text was built; nothing ran, so there are no inputs, outputs and figures."""
    _launch(draft, backend, plan, {}, 1)
    return Verdict.PASS, BUILT


def turns(request: Request, backend: Backend, plan: Plan) -> int:
    """How often a case runs: as asked, and in the exact build at least once in every execution order.

    Twice where it puts out bytes: any byte can be right, so one that nobody wrote shows by differing.
    """
    return max(request.repeats, turns_of(request.case, plan, backend.orders))


def turns_of(case: Case, plan: Plan, orders: int = 2) -> int:
    """How often a case runs at least, with that many orders to take."""
    return max(orders if case.build is Build.EXACT else 1, 2 if judge.puts_out_bytes(plan) else 1)


def _differs(what: str, here: str, asked: str) -> str:
    return f"{what} digest {here[:12]} here, {asked[:12]} asked for: another catalog; update this worker"


def _decide(draft: Draft, plan: Plan, images: Images) -> tuple[Verdict, str]:
    """By the first that is wrong of findings, guards, comparison, untouched inputs, and equal runs."""
    request, first = draft.request, draft.runs[0]
    judged = _judge(draft, plan, images)
    comparison = judged.comparison
    draft.comparison, draft.output_digest = comparison, judged.output_digest
    draft.enter("")
    draft.split(judged.oracle_us, judged.twin_us)
    if request.output:
        save_output(plan, first, Path(request.output))
    fault = _fault(draft, plan, images)
    verdict, reason = (Verdict.FAIL, fault) if fault else (comparison.verdict, comparison.reason)
    if verdict is Verdict.PASS and (wrong := misrouted(plan, first)):
        verdict, reason = Verdict.ERROR, wrong
    if verdict is Verdict.PASS and not plan.deterministic:
        reason = "; ".join(filter(None, (reason, f"{len(draft.runs)} {ANY_BITS}")))
    if request.rule is not Rule.BOUND:
        draft.rule_verdict = by_rule(verdict, comparison, request.rule, bool(fault))
    return verdict, reason


def _judge(draft: Draft, plan: Plan, images: Images) -> Judged:
    """The first run judged; where repeats may differ every run, and the first that isn't right counts."""
    runs = draft.runs[:1] if plan.deterministic else draft.runs
    for turn, run in enumerate(runs):
        judged = judge.judge(
            draft.request.case,
            plan,
            run.images,
            POISONS[turn % len(POISONS)],
            given=images.by_name,
            approximate=run.approximate,
        )
        if judged.comparison.verdict is not Verdict.PASS:
            break
    return judged


def _fault(draft: Draft, plan: Plan, images: Images) -> str:
    """What is wrong whatever the numbers say, or behind right numbers; empty if nothing is."""
    findings = [line for run in draft.runs for line in run.findings]
    if findings:
        return findings[0] + (f" (and {len(findings) - 1} more)" if findings[1:] else "")
    guards = [line for run in draft.runs for line in run.guards]
    if guards:
        draft.announce(SPOILED)
        return "; ".join(guards)
    if draft.comparison is None or draft.comparison.verdict is not Verdict.PASS:
        return ""
    written = written_inputs(plan, images.by_name, draft.runs)
    return written or judge.repeats(plan, [run.images for run in draft.runs])


def misrouted(plan: Plan, run: Run) -> str:
    """How the launches differ from those planned: right numbers of another launch prove nothing.

    A backend that launches nothing, as the twin, has no records to hold against the plan.
    """
    planned = [(one.entry, one.grid, one.block, one.dynamic_shared_bytes) for one in plan.launches]
    happened = [(one.entry, one.grid, one.block, one.dynamic_shared_bytes) for one in run.launches]
    if planned == happened or not happened:
        return ""
    if len(planned) != len(happened):
        return f"{len(happened)} launches happened, {len(planned)} were planned"
    number = next(i for i, one in enumerate(happened) if one != planned[i])
    return f"launch {number} was {happened[number]}, the plan says {planned[number]}"


def by_rule(verdict: Verdict, comparison: Comparison, rule: Rule, faults: bool) -> Verdict:
    """The second verdict; no rule excuses a broken guard, differing runs or a bad fixture."""
    if faults or verdict is Verdict.ERROR:
        return verdict
    return Verdict.PASS if comparison.passes(rule) else Verdict.FAIL


def written_inputs(plan: Plan, given: Mapping[str, np.ndarray], runs: Iterable[Run]) -> str:
    """The first input buffer that isn't what it was; empty if all are."""
    for turn, run in enumerate(runs):
        for buffer in plan.buffers:
            before = given.get(buffer.name) if buffer.role is Role.IN else None
            after = run.images[buffer.name]
            if before is not None and after is not before and not np.array_equal(after, before):
                return f"wrote to its input {buffer.name} in turn {turn}"
    return ""


def save_output(plan: Plan, run: Run, path: Path) -> None:
    """Writes the plan's output as .npy, 16-bit floats as the float32 that they are; several outputs flat."""
    outs = [values(buffer.view(run.images[buffer.name])) for buffer in plan.buffers if buffer.put_out]
    whole = outs[0] if len(outs) == 1 else np.concatenate([out.reshape(-1) for out in outs])
    np.save(path, whole, allow_pickle=False)


def ended(request: Request, verdict: Verdict, reason: str, started_us: int, finished_us: int) -> Evidence:
    """Evidence for a case whose own process can't write it any more, or that never ran.

    Its source is the one asked for: a process that has another ends the case by itself.
    """
    draft = Draft(request, lambda: finished_us, lambda phase: None, started_us)
    draft.source_digest = request.source_digest
    return draft.evidence(verdict, reason)
