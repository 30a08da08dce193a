"""How much is done for one figure, and when a figure proves nothing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from kernels.benchmark import Benchmark
from kernels.evidence import Comparison, Verdict
from kernels.model import Device, Plan, Role
from workers import work
from workers.timed import BoardState, Rounds, Timed, Timing
from workers.yardsticks import YARDSTICKS


@dataclass(frozen=True)
class Effort:
    """How much is done for one figure."""

    batches: int = 30
    batch_us: float = 2_000.0  # that a batch takes at least
    warm_us: float = 200_000.0  # before the first
    most_passes: int = 500  # of a batch
    rotated_bytes: int = 256 << 20  # of copies at least; four times the cache where that is more
    most_copies: int = 512
    mark_bytes: int = 64 << 20  # that a yardstick goes over


# A processor's figures exercise the path and say nothing about a GPU: few and small.
EFFORTS: Mapping[str, Effort] = {"host": Effort(5, 0.0, 0.0, 4, 0, 2, 1 << 20)}
CACHES = 4  # that lie between two reads of the same bytes
FEWEST_COPIES = 2  # so that no pass reads what the one before it has read
TURN = 1  # whose poison lies in the outputs of the timed run
# Of reasons why clocks were lowered, parts of those that make a figure worthless. A power cap is only told.
HEAT = ("thermal", "hw_slowdown", "power_brake")
POWER_CAP = "sw_power_cap"
QUEUEING_SHARE = 0.8  # of a pass's time, from which on it may be queueing that was timed
POSSIBLE = 1.05  # of what a limit allows: two figures of one run differ by less
OF_MEMORY = tuple(one.name for one in YARDSTICKS)  # limits that were measured: copy and read


@dataclass(frozen=True)
class Bench:
    """A backend that measures, and the board it measures."""

    backend: Timed
    device: Device

    @property
    def effort(self) -> Effort:
        return EFFORTS.get(self.backend.name, Effort())

    @property
    def cache_bytes(self) -> int:
        return work.cache_bytes(self.device)

    def copies_of(self, nbytes: int) -> int:
        """How many sets of so many bytes are gone through in turn."""
        wanted = max(self.effort.rotated_bytes, CACHES * self.cache_bytes)
        return min(max(FEWEST_COPIES, -(-wanted // max(1, nbytes))), self.effort.most_copies)

    def time(self, plan: Plan, copies: Sequence[Mapping[str, np.ndarray]]) -> tuple[Timing, Rounds]:
        """Times of batches that are long enough, the pass to be judged drawn by chance."""
        effort = self.effort
        trial = self.backend.time(plan, copies, self.device, Rounds(3, 1, 1, 0), 0)
        pass_us = max(min(trial.pass_us), 0.1)
        passes = min(max(1, round(effort.batch_us / pass_us)), effort.most_passes)
        warmups = min(round(effort.warm_us / pass_us), 20 * effort.most_passes)
        chosen = secrets.randbelow(effort.batches * passes)
        rounds = Rounds(effort.batches, passes, warmups, chosen)
        return self.backend.time(plan, copies, self.device, rounds, TURN), rounds


def bytes_of(plan: Plan) -> int:
    """What a pass reads and writes at least: what comes in and what is put out, once, without padding."""
    moved = [buffer for buffer in plan.buffers if buffer.role is not Role.SCRATCH]
    return sum((2 if buffer.role is Role.INOUT else 1) * buffer.viewed_bytes for buffer in moved)


def refusal(found: Benchmark, timing: Timing, compared: Comparison, sheet_gb_per_s: float) -> Benchmark:
    """The benchmark with why it proves nothing, and with what a reader should know."""
    throttled = (*(timing.before.throttled_by or ()), *(timing.after.throttled_by or ()))
    hot = sorted({reason for reason in throttled if any(part in reason for part in HEAT)})
    errors = (timing.after.ecc_uncorrected or 0) - (timing.before.ecc_uncorrected or 0)
    outgrown = found.copied_bytes >= CACHES * found.cache_bytes
    reasons = (
        f"the pass that was judged was {compared.verdict}" if compared.verdict is not Verdict.PASS else "",
        f"slowed down by {', '.join(hot)}" if hot else "",
        f"{errors} uncorrected memory errors" if errors > 0 else "",
        ""
        if outgrown
        else f"{found.copied_bytes / 1e6:.0f} MB of copies, where four times the cache of "
        f"{found.cache_bytes / 1e6:.0f} MB is wanted; take a larger shape",
        f"{found.gb_per_s:.0f} GB/s, the data sheet says {sheet_gb_per_s:.0f}"
        if 0 < sheet_gb_per_s < found.gb_per_s
        else "",
        launch_bound(timing),
        impossible(found),
    )
    notes = ("power cap",) if POWER_CAP in throttled else ()
    return replace(found, refused="; ".join(filter(None, reasons)), notes=(*found.notes, *notes))


def launch_bound(timing: Timing) -> str:
    """Why a figure is one of queueing launches and not of the kernel; empty where it isn't."""
    if not timing.queue_us:
        return ""
    pass_us, queue_us = float(np.median(timing.pass_us)), float(np.median(timing.queue_us))
    if queue_us < QUEUEING_SHARE * pass_us:
        return ""
    return f"launch-bound: queueing a pass took {queue_us:.1f} of {pass_us:.1f} µs; take a larger shape"


def impossible(found: Benchmark) -> str:
    """Which limit a figure exceeds; empty where none. Of those of memory the one counts that allows more."""
    of_memory = [limit for limit in found.limits if limit.name in OF_MEMORY]
    others = [limit for limit in found.limits if limit.name not in OF_MEMORY]
    fastest = sorted(of_memory, key=lambda limit: limit.pass_us)[:1]
    least = max((*others, *fastest), key=lambda limit: limit.pass_us, default=None)
    if least is None or least.pass_us <= POSSIBLE * found.spread.median_us:
        return ""
    return f"{least.pass_us / found.spread.median_us:.0%} of what {least.name} allows can't be"


def told(state: BoardState) -> tuple[tuple[str, str], ...]:
    """What the board told of itself, by name."""
    values = ((field.name, getattr(state, field.name)) for field in fields(state))
    return tuple(
        (name, ", ".join(value) if isinstance(value, tuple) else str(value))
        for name, value in values
        if value is not None
    )
