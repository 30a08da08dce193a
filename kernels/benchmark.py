"""What a benchmark of one case is made of: times, what else the board did in the same run, and its limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

RULE = 1  # version of how times are taken and judged; figures of two rules aren't compared


@dataclass(frozen=True)
class Spread:
    """Microseconds of one pass over a number of batches, by figures that a few outliers don't move."""

    batches: int
    median_us: float
    p10_us: float
    p90_us: float
    mad_us: float  # the median of the distances from the median


@dataclass(frozen=True)
class Mark:
    """What the same board did with something plain in the same run."""

    name: str  # copy, read, gemm f16, gemm f32
    nbytes: int  # that a pass reads and writes
    spread: Spread

    @property
    def gb_per_s(self) -> float:
        return gb_per_s(self.nbytes, self.spread.median_us)


@dataclass(frozen=True)
class Limit:
    """What no pass can be faster than, for one reason."""

    name: str  # copy, read, issue, L1, fma
    pass_us: float
    basis: str  # what it was worked out from


@dataclass(frozen=True)
class Benchmark:
    """The times of one case; `refused` says why they prove nothing."""

    spread: Spread
    nbytes: int  # that a pass must read and write at least
    passes: int  # of a batch
    warmups: int
    copies: int  # sets of inputs, each drawn by a seed of its own and in memory of its own
    copied_bytes: int  # of all sets together
    cache_bytes: int  # of the board's last cache; 0 where it doesn't tell
    chosen: int  # the pass that was judged, drawn by chance
    chosen_seed: int  # of the inputs that it read
    chosen_digest: str  # of what it put out
    marks: tuple[Mark, ...] = ()
    limits: tuple[Limit, ...] = ()
    before: tuple[tuple[str, str], ...] = ()  # clocks, temperature, throttling, as the board told
    after: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()  # what a reader should know: a power cap, a mark that could not be had
    refused: str = ""
    rule: int = RULE

    @property
    def gb_per_s(self) -> float:
        return gb_per_s(self.nbytes, self.spread.median_us)

    @property
    def least(self) -> Limit | None:
        """The limit that allows the least speed; None where none is known."""
        return max(self.limits, key=lambda limit: limit.pass_us, default=None)

    @property
    def share_of_least(self) -> float | None:
        """Speed as a share of what the least limit allows: 1 is as fast as can be."""
        measured = self.least and self.spread.median_us
        return self.least.pass_us / self.spread.median_us if self.least and measured else None


def gb_per_s(nbytes: int, pass_us: float) -> float:
    """10^9 bytes a second."""
    return nbytes / pass_us / 1000 if pass_us else 0.0


def spread(pass_us: Iterable[float]) -> Spread:
    """Figures of the times of batches, at least one."""
    times = np.array(list(pass_us), np.float64)
    p10, median, p90 = (float(figure) for figure in np.percentile(times, (10, 50, 90)))
    mad = float(np.median(np.abs(times - median)))
    return Spread(times.size, median, p10, p90, mad)
