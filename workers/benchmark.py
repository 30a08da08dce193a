"""Times a case so that nothing but running it gives its figures.

Inputs are drawn by fresh seeds and read in turn, so that no cache keeps the weights, each set in memory of
its own; the pass whose outputs are judged is drawn by chance, and none can tell that it is the one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernels import compare, inputs, judge, registry
from kernels.benchmark import Benchmark, Limit, Mark, spread
from kernels.evidence import Comparison, Evidence, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.limits import by_memory, limits
from kernels.model import Case, Plan, Seeded
from workers import marks, work
from workers.backend import POISONS, Backend, CannotRun, KernelFault, Run
from workers.clock import wall_clock
from workers.effort import OF_MEMORY, TURN, Bench, bytes_of, refusal, told
from workers.image_cache import ImageCache
from workers.request import KERNEL_PHASES, SPOILED, Request
from workers.runner import Clock, blame, misrouted, one_line, run_case, spoils, written_inputs
from workers.timed import Timed, Timing

Images = Mapping[str, np.ndarray]


def bench_case(
    request: Request,
    backend: Backend,
    images: ImageCache,
    clock: Clock = wall_clock,
    announce: Callable[[str], None] = lambda phase: None,
) -> Evidence:
    """The evidence of the case as ever and, where that is PASS, with its benchmark.

    FAIL where the outputs of the timed pass that was chosen are wrong.
    """
    evidence = run_case(request, backend, images, clock, announce)
    if evidence.verdict is not Verdict.PASS:
        return evidence
    if not isinstance(backend, Timed):
        return replace(evidence, reason=f"not timed: {backend.name} measures nothing")
    phases = Phases(announce)
    try:
        found, comparison = measure(request, Bench(backend, request.device), phases.enter)
    except CannotRun as error:
        return replace(evidence, reason=one_line(f"not timed: {error}"), finished_us=clock())
    except Exception as error:  # noqa: BLE001 - the kernel may fail in any way: it becomes evidence
        verdict, reason = phases.blame(error)
        reason = one_line(f"timed, in phase {phases.now}: {reason}")
        ended = replace(evidence, verdict=verdict, reason=reason, comparison=None, output_digest="")
        return replace(ended, finished_us=clock())
    evidence = replace(evidence, benchmark=found, finished_us=clock())
    if comparison.verdict is Verdict.PASS:
        return evidence
    reason = one_line(f"pass {found.chosen} while it was timed: {comparison.reason}")
    return replace(evidence, verdict=comparison.verdict, reason=reason, comparison=comparison)


class Phases:
    """What is being done while a case is timed, and who is at fault when it fails."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self.now = ""
        self._announce = announce

    def enter(self, phase: str) -> None:
        self.now = phase
        self._announce(phase)

    def blame(self, error: Exception) -> tuple[Verdict, str]:
        """Verdict and message; a fault over the farm's own kernels is the farm's, and spoils the process."""
        verdict, reason = blame(error)
        by_kernel = self.now in KERNEL_PHASES
        if spoils(error) or (isinstance(error, KernelFault) and not by_kernel):
            self._announce(SPOILED)
        return verdict if by_kernel else Verdict.ERROR, reason


def measure(request: Request, bench: Bench, enter: Callable[[str], None]) -> tuple[Benchmark, Comparison]:
    """The benchmark of a case, and what judging the chosen pass has found; raises what Timed.time raises."""
    case = request.case
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    enter("inputs")
    seeds, copies = fresh(case, plan, bench)
    enter("launch")
    timing, rounds = bench.time(plan, copies)
    enter("yardsticks")
    beside, notes = marks.measured(case, bench)
    enter("compare")
    at = rounds.chosen % len(copies)
    comparison = judged(drawn(case, seeds[at]), plan, copies[at], timing.run)
    found = Benchmark(
        spread=spread(timing.pass_us),
        nbytes=bytes_of(plan),
        passes=rounds.passes,
        warmups=rounds.warmups,
        copies=len(copies),
        copied_bytes=sum(image.nbytes for copy in copies for image in copy.values()),
        cache_bytes=bench.cache_bytes,
        chosen=rounds.chosen,
        chosen_seed=seeds[at],
        chosen_digest=compare.output_digest(judge.outputs(plan, timing.run.images)),
        marks=beside,
        limits=limits_of(case, plan, timing, beside, bench),
        before=told(timing.before),
        after=told(timing.after),
        notes=notes,
    )
    return refusal(found, timing, comparison, work.sheet_gb_per_s(request.device)), comparison


def drawn(case: Case, seed: int) -> Case:
    """The case over other inputs of its family."""
    source = Seeded(case.family, seed, FIXTURE_VERSION)
    return replace(case, weights=source, x=source)


def fresh(case: Case, plan: Plan, bench: Bench) -> tuple[list[int], list[Images]]:
    """Sets of inputs by fresh seeds: so many that their weights push each other out of the cache."""
    if not isinstance(case.x, Seeded) or not isinstance(case.weights, Seeded):
        raise CannotRun("the inputs are a file's, and a benchmark draws its own; leave out --gguf")
    count = bench.copies_of(sum(buffer.nbytes for buffer in plan.buffers if buffer.given))
    seeds = [secrets.randbelow(2**31) for _ in range(count)]
    operands = registry.op(case.op).operands(case)
    return seeds, [inputs.images(drawn(case, seed), plan, operands) for seed in seeds]


def judged(case: Case, plan: Plan, given: Images, run: Run) -> Comparison:
    """The chosen pass as any other run: by its own inputs, guards and launches."""
    poison = POISONS[TURN]
    found = judge.judge(case, plan, run.images, poison, given=given, approximate=run.approximate).comparison
    if found.verdict is not Verdict.PASS:
        return found
    if broken := "; ".join(run.guards) or written_inputs(plan, given, [run]):
        return replace(found, verdict=Verdict.FAIL, reason=broken)
    if wrong := misrouted(replace(plan, launches=plan.launches[plan.setup :]), run):
        return replace(found, verdict=Verdict.ERROR, reason=wrong)
    return found


def limits_of(
    case: Case, plan: Plan, timing: Timing, beside: Sequence[Mark], bench: Bench
) -> tuple[Limit, ...]:
    """What memory allows by the yardsticks of this run, and what issue, L1 and arithmetic do where known."""
    by_marks = [
        by_memory(mark.name, bytes_of(plan), mark.nbytes / mark.spread.median_us, "measured in this run")
        for mark in beside
        if mark.name in OF_MEMORY
    ]
    asked = work.work_of(case, bytes_of(plan), timing.run.builds)
    return *by_marks, *limits(asked, work.board_of(bench.device, timing.after))
