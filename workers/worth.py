"""The order in which cases are worth running when time may end at any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernels.catalog import Planned
from kernels.model import Build


def most_valuable_first(planned: Iterable[Planned]) -> list[Planned]:
    """One case of every cell, the exact build's first, then each cell's second, and so on.

    A cell that nobody ran is worth more than a second case of one that has a verdict. Within a round the
    order stays as it was, which has cases of equal inputs together.
    """
    seen: Counter[tuple[str, str, str, Build]] = Counter()
    ranked = []
    for item in planned:
        case = item.case
        cell = (case.op, case.kernel, case.kind, case.build)
        ranked.append((seen[cell], case.build is not Build.EXACT, item))
        seen[cell] += 1
    return [item for *_, item in sorted(ranked, key=lambda one: one[:2])]
