"""What a class of boards lacks, cell by cell: one rule for `--only` and for `farm plan`.

Ran(capabilities, sms).lacks("rtx-3060", "cuda", row, source_digest) -> Only or None
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from db.cell import Capability, holds_for
from farm.matrix import Row

BySource = Mapping[str, Sequence[Capability]]


class Only(StrEnum):
    """Which cells `--only` keeps, by what the database knows of them; no cell is two of these."""

    NEVER = "never"  # no evidence at all
    STALE = "stale"  # evidence, but none of this source
    BAD = "bad"  # a bad verdict of this source


class Ran:
    """What the boards of each class ran: one of them is enough, and what is suspect counts for nothing."""

    def __init__(self, known: Iterable[Capability], sms: Mapping[str, str]) -> None:
        """`sms`: class to sm, for what the compiler showed."""
        self._sms = sms
        self._rows: dict[tuple[str, ...], dict[str, list[Capability]]] = {}
        for one in known:
            if "suspect" not in one.flags:
                key = one.key
                cell = (one.device_class, key.backend, key.op, key.kernel, key.kind, key.build)
                self._rows.setdefault(cell, {}).setdefault(key.source_digest, []).append(one)

    def lacks(self, device_class: str, backend: str, row: Row, digest: str) -> Only | None:
        """What is missing of a cell whose source is that one now; None where its evidence is good."""
        by_source = self._rows.get((device_class, backend, *row), {})
        if not by_source:
            return Only.NEVER
        if digest in by_source:
            return Only.BAD if any(one.verdict.bad for one in by_source[digest]) else None
        built = self._rows.get((self._sms.get(device_class, ""), "nvrtc", *row), {}).get(digest, [])
        same_code = backend == "cuda" and _newest_holds(by_source, built)
        return None if same_code else Only.STALE


def _newest_holds(by_source: BySource, built: Sequence[Capability]) -> bool:
    """Whether a cell's newest verdict is true of today's source, which compiles to the same code."""
    newest = max((one for found in by_source.values() for one in found), key=lambda one: one.last_run_us)
    return any(holds_for(newest, one) for one in built)
