"""What no case and no device reaches: kinds, kernels, families and shapes, and what a campaign would add.

cover(planned, reached) -> tuple[Covered, …]       # one per kernel; pure
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from kernels.catalog import Planned
from kernels.families import FAMILIES
from kernels.model import Case

Class = tuple[str, str]  # device class, backend


@dataclass(frozen=True)
class Covered:
    """One kernel: how much of what its tiers plan has been reached, and what nothing reaches."""

    kernel: str  # op/name
    cases: int  # that the tiers plan
    kinds: tuple[str, ...]
    reached: tuple[tuple[Class, int], ...]  # of those cases
    no_case: tuple[str, ...]  # families that no case of it draws
    kinds_unreached: tuple[str, ...]  # that no device has run at all
    families_unreached: tuple[str, ...]
    shapes_unreached: tuple[str, ...]

    def lacks(self, device_class: Class) -> int:
        """How many cases a campaign would add there."""
        return self.cases - dict(self.reached).get(device_class, 0)


def cover(planned: Iterable[Planned], reached: Mapping[Class, Set[str]]) -> tuple[Covered, ...]:
    """By kernel, in the order of the plan; `reached` has the case ids of every class that ran something."""
    by_kernel: defaultdict[str, list[Case]] = defaultdict(list)
    for one in planned:
        by_kernel[f"{one.case.op}/{one.case.kernel}"].append(one.case)
    return tuple(_covered(kernel, cases, reached) for kernel, cases in by_kernel.items())


def _covered(kernel: str, cases: list[Case], reached: Mapping[Class, Set[str]]) -> Covered:
    ids = {case.id: case for case in cases}
    by_class = {place: ids.keys() & there for place, there in sorted(reached.items())}
    ran = [ids[case_id] for case_id in ids if any(case_id in there for there in by_class.values())]
    return Covered(
        kernel,
        len(ids),
        tuple(dict.fromkeys(case.kind for case in cases)),
        tuple((place, len(there)) for place, there in by_class.items()),
        tuple(family for family in FAMILIES if family not in {case.family for case in cases}),
        _left((case.kind for case in cases), (case.kind for case in ran)),
        _left((case.family for case in cases), (case.family for case in ran)),
        _left((str(case.shape) for case in cases), (str(case.shape) for case in ran)),
    )


def _left(wanted: Iterable[str], there: Iterable[str]) -> tuple[str, ...]:
    found = set(there)
    return tuple(name for name in dict.fromkeys(wanted) if name not in found)
