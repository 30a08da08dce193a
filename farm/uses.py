"""Coverage weighted by use: which share of a workload file's uses a campaign has shown to be right."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from db.campaign import CampaignRow
from db.job import JobRow, jobs_of
from db.session import Session
from farm.campaign import Order
from kernels import codec
from kernels.catalog import Use
from kernels.evidence import Verdict

WAITS, NOT_RUN, NO_OP = "no verdict yet", "not selected", "no op here"


@dataclass(frozen=True)
class Coverage:
    """Every use with what its jobs came to: a verdict as a cell folds them, or why there is none."""

    file: str
    uses: tuple[tuple[Use, str], ...]  # most used first
    left: int  # uses that no op of ours computes

    @property
    def total(self) -> int:
        return self.left + sum(use.count for use, _ in self.uses)

    def counts(self) -> dict[str, int]:
        """Uses by verdict, worst first, then those without one."""
        found: dict[str, int] = defaultdict(int)
        for use, state in self.uses:
            found[state] += use.count
        found[NO_OP] += self.left
        order = (*(verdict.value for verdict in Verdict), WAITS, NOT_RUN, NO_OP)
        return {state: found[state] for state in order if found[state]}

    def line(self) -> str:
        """shapes.csv, 1,234 uses: 80.0 % PASS, 20.0 % no op here"""
        shares = (f"{100 * count / self.total:.1f} % {state}" for state, count in self.counts().items())
        return f"{self.file}, {self.total:,} uses: {', '.join(shares)}"

    def record(self) -> dict[str, Any]:
        shapes = [
            {"op": use.op, "shape": str(use.shape), "count": use.count, "state": state}
            for use, state in self.uses
        ]
        return {"file": self.file, "total": self.total, "by_state": self.counts(), "shapes": shapes}


def coverage(s: Session, row: CampaignRow) -> Coverage | None:
    """Of a campaign that was submitted with a workload file; None of any other."""
    stored = json.loads(row.selection)
    return fold(codec.decode(Order, stored), jobs_of(s, row.id)) if stored.get("workloads") else None


def fold(order: Order, jobs: Iterable[JobRow]) -> Coverage:
    """A use is bad where one of its jobs is, and PASS where some are and the rest are refusals."""
    assert order.workloads is not None
    verdicts: dict[tuple[str, str], list[Verdict | None]] = defaultdict(list)
    for job in jobs:
        verdicts[job.case.op, str(job.case.shape)].append(job.verdict)
    uses = tuple((use, _state(verdicts[use.op, str(use.shape)])) for use in order.selection.uses)
    return Coverage(order.workloads.file, uses, sum(left.count for left in order.workloads.left))


def _state(verdicts: list[Verdict | None]) -> str:
    if not verdicts:
        return NOT_RUN
    done = [verdict for verdict in verdicts if verdict is not None]
    worst = min(done, key=list(Verdict).index, default=None)
    if worst is None or (None in verdicts and not worst.bad):
        return WAITS
    return worst.value
