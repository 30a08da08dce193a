"""How long cases took on the boards of a class: what a rental is reckoned by.

paces(s) -> {device class: Pace}
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Session
from db.tables import evidence

NEWEST = 2_000  # lines that a median is taken of
GPU = "cuda"


@dataclass(frozen=True)
class Pace:
    """Of one class of boards."""

    case_us: int  # the median
    cases: int  # that it was taken of


def paces(s: Session) -> dict[str, Pace]:
    """By class, of the newest lines of boards; empty where no board ran anything."""
    took = (evidence.c.finished_us - evidence.c.started_us).label("took_us")
    place = sa.func.row_number().over(
        partition_by=evidence.c.device_class, order_by=evidence.c.finished_us.desc()
    )
    ran = sa.select(evidence.c.device_class, took, place.label("place"))
    lines = ran.where(evidence.c.backend == GPU, evidence.c.folded).subquery()
    query = sa.select(lines.c.device_class, lines.c.took_us).where(lines.c.place <= NEWEST)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for device_class, took_us in s.execute(query):
        found[device_class].append(took_us)
    return {name: Pace(int(statistics.median(times)), len(times)) for name, times in found.items()}
