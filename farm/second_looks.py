"""Which jobs that passed on one board run on another of its class, and how many of them are open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from db import queue, second
from db.outcome import Outcome
from db.session import Session
from kernels.evidence import Evidence, Verdict


class SecondLooks:
    """Those of one coordinator; its writer's thread alone uses them."""

    def __init__(self) -> None:
        self.share = 0.0  # largest share of any open campaign's cases that two boards run
        self._count = 1  # that may be open; there may be some of the epoch before

    @property
    def are_open(self) -> bool:
        return self._count > 0

    def ask(self, s: Session, lines: Iterable[Evidence], outcomes: Iterable[Outcome]) -> None:
        """Has what passed on one board, and is of its campaign's share, run on another of the class."""
        passed = [
            outcome.job_id
            for line, outcome in zip(lines, outcomes, strict=True)
            if outcome.job_id and outcome.decided and outcome.verdict is Verdict.PASS
            and second.is_chosen(line.case_id, self.share)
        ]  # fmt: skip
        if passed:
            self._count += len(second.ask(s, passed))

    def withdraw(self, s: Session, peers: Sequence[queue.Worker], now_us: int) -> None:
        """Lets the first board's lines stand where no board that is at work can look."""

        def any_can_run(target: Any) -> bool:
            return any(queue.can_run(target, peer) for peer in peers)

        self._count = second.withdraw(s, any_can_run, now_us)
