"""Where a series of benchmarks changed its level: robust figures, so that one odd day is no step.

find(series) -> tuple[Step, …]              # benchmarks of one case on one board, oldest first; pure
of_campaigns(s, before, after) -> tuple[Step, …]

A step is a change of the median between two stretches of the series that is larger than the noise of both,
within benchmarks and from one to the next, and than a share of the level. Between two benchmarks of the very
same compiled code it is noise, and told as that: whatever moved between them, it wasn't the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from db import benchmark
from db.benchmark import Timed
from db.session import Session

LEAST_SHARE = 0.05  # of the level: what is smaller isn't told apart from a board's moods
NOISES = 4.0  # median distances: about 2.7 standard deviations of a normal noise within a benchmark
BEFORE, AFTER = 5, 3  # benchmarks on each side at the most; a single newest one may be an odd day


@dataclass(frozen=True)
class Step:
    """A change of level between two benchmarks that follow one another."""

    before: Timed
    after: Timed
    ratio: float  # of the medians, after over before: 1.2 takes a fifth longer

    @property
    def is_noise(self) -> bool:
        """Whether both timed the very same compiled code."""
        return self.before.build_digest == self.after.build_digest != ""

    @property
    def sort(self) -> str:
        """`slower`, `faster`, or `same code`, which is neither."""
        if self.is_noise:
            return "same code"
        return "slower" if self.ratio > 1 else "faster"


def find(series: Sequence[Timed]) -> tuple[Step, ...]:
    """Every step of a series, oldest first; each side of one is at most as long as to the next step."""
    found: list[Step] = []
    first = 0
    for at in range(1, len(series)):
        before = series[max(first, at - BEFORE) : at]
        after = series[at : at + AFTER]
        ratio = _ratio(before, after)
        if ratio:
            found.append(Step(series[at - 1], series[at], ratio))
            first = at
    return tuple(found)


def of_campaigns(s: Session, before: int, after: int) -> tuple[Step, ...]:
    """Steps of the stored series that end in a benchmark of campaign `after`, and begin before it.

    Only series that campaign `before` is part of, too: then it is these two that one is told of.
    """
    was = {(one.key.device, one.case_id) for one in benchmark.of_campaign(s, before)}
    now = {one.evidence_id for one in benchmark.of_campaign(s, after)}
    steps = (step for series in benchmark.all_series(s).values() for step in find(series))
    return tuple(
        step
        for step in steps
        if step.after.evidence_id in now and (step.after.key.device, step.after.case_id) in was
    )


def _ratio(before: Sequence[Timed], after: Sequence[Timed]) -> float:
    """The change of level from one stretch to the next; 0 where it may be noise, or one benchmark's mood."""
    was, now = (np.array([one.benchmark.spread.median_us for one in side]) for side in (before, after))
    level, new = float(np.median(was)), float(np.median(now))
    noise = max(_noise(before, was), _noise(after, now))
    if abs(new - level) <= max(LEAST_SHARE * level, NOISES * noise):
        return 0.0
    # The first benchmark behind a step must be on the new level itself.
    return new / level if abs(now[0] - new) < abs(now[0] - level) else 0.0


def _noise(side: Sequence[Timed], medians: np.ndarray) -> float:
    """Within benchmarks, and from one to the next: a step inside a stretch is no noise of it."""
    within = max(one.benchmark.spread.mad_us for one in side)
    leaps = np.sort(np.abs(np.diff(medians)))
    return max(within, float(leaps[(leaps.size - 1) // 2]) if leaps.size else 0.0)
