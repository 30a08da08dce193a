"""Kernels that compute nothing, judged as a catalog declares: a tolerance that lets one pass tells nothing.

Nothing is compiled and nothing of the catalog runs: their outputs are written here, and judged by the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kernels import catalog, judge, registry
from kernels.catalog import Selection
from kernels.declared.kernel import DeclaredKernel
from kernels.dtypes import rounded
from kernels.evidence import Comparison, Verdict
from kernels.model import Build, Case, Plan, Role
from workers.backend import POISONS, filled
from workers.files import FileStore
from workers.image_cache import ImageCache

CANCELLING = "cancelling"  # the family whose outputs are what is left of sums that cancel


class Idle(StrEnum):
    """What a kernel that computes nothing puts out."""

    ZERO = "zero"
    CONSTANT = "constant"  # 1 everywhere
    STALE = "stale-output"  # what lay there: poison, the declared fill, or the input whose place it takes


class Seen(StrEnum):
    """What became of one of them in one case."""

    CAUGHT = "caught"
    RIGHT = "right"  # to the bit what the oracle wants: nobody could tell
    FLOAT32 = "float32"  # the rule for float32 lets it pass as well, at the longest chain there can be
    CANCELLED = "cancelled"  # the declared tolerance is more than is left of sums that cancel
    UNJUDGED = "unjudged"  # every element is a twin's to judge, or the inputs give no truth
    PASSED = "passed"  # the declaration is at fault


@dataclass(frozen=True)
class Tried:
    """One of them in one case."""

    idle: Idle
    case: Case
    seen: Seen
    comparison: Comparison


def quick_cases(kernel: DeclaredKernel) -> list[Case]:
    """The cases of the quick tier, all families, in the exact build, that neither op nor kernel refuses."""
    with registry.searching({kernel.id: kernel}):
        selection = Selection(kernels=(kernel.id,), builds=(Build.EXACT,))
        cases = [planned.case for planned in catalog.expand(selection)]
        return [case for case in cases if not (registry.op(case.op).refuses(case) or kernel.refuses(case))]


def try_all(kernel: DeclaredKernel) -> Iterator[Tried]:
    """All three in every case; the declared twin isn't asked, since it is a stranger's Python."""
    alone, cache = kernel.twinless(), ImageCache(FileStore())
    for case in quick_cases(kernel):
        for idle in Idle:
            yield _tried(alone, case, idle, cache)


def _tried(kernel: DeclaredKernel, case: Case, idle: Idle, cache: ImageCache) -> Tried:
    comparison = _judged(kernel, case, idle, cache)
    return Tried(idle, case, _seen(kernel, case, idle, comparison, cache), comparison)


def _seen(kernel: DeclaredKernel, case: Case, idle: Idle, found: Comparison, cache: ImageCache) -> Seen:
    if found.verdict is Verdict.FAIL:
        return Seen.CAUGHT
    if found.verdict is not Verdict.PASS:
        return Seen.UNJUDGED
    if not found.bound_ratio:
        return Seen.RIGHT
    anyway = _judged(kernel.undeclared(), case, idle, cache)
    if anyway.verdict is Verdict.PASS:
        return Seen.FLOAT32
    if kernel.declaration.tolerance and case.family == CANCELLING:
        return Seen.CANCELLED
    return Seen.PASSED


def _judged(kernel: DeclaredKernel, case: Case, idle: Idle, cache: ImageCache) -> Comparison:
    with registry.searching({kernel.id: kernel}):
        plan = kernel.plan(case)
        given = cache.images(case, plan).by_name
        images = {**given, **_outputs(plan, given, idle)}
        return judge.judge(case, plan, images, POISONS[0], given=given).comparison


def _outputs(plan: Plan, given: judge.Images, idle: Idle) -> dict[str, np.ndarray]:
    """The (nbytes,) uint8 images of the buffers that are judged, as a kernel of that sort leaves them."""
    made = {}
    for name in judge.written_buffers(plan):
        buffer = plan.buffer(name)
        image = given[name].copy() if buffer.role is Role.INOUT else filled(buffer, 0)
        if idle is not Idle.STALE:
            view = buffer.view(image)
            view[...] = rounded(np.array(idle is Idle.CONSTANT, np.float32), view.dtype)
        made[name] = image
    return made
