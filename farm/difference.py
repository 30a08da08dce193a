"""What changed between two states of the farm: campaigns, devices, or exports of other days.

compare(before, after, factor) -> tuple[Change, …]      # states by place; pure
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from db.cell import SEVERITY, largest
from db.outcomes import Tried
from farm.matrix import Cell
from kernels.evidence import Verdict

FACTOR = 2.0  # a margin that grew by less is no change
LEAST_MARGIN = 0.01  # of the limit: what is below it may grow unnoticed
SORTS = ("broken", "grown", "lost", "added", "fixed", "changed", "flaky", "same code")

Place = tuple[str, ...]  # [device class,] backend, op, kernel, kind, build


@dataclass(frozen=True)
class State:
    """How a cell stands on one side."""

    verdict: Verdict
    bound_ratio: float | None  # of the limit; None where nothing was compared
    source_digest: str
    build_digest: str = ""  # empty where not known
    flaky: bool = False


@dataclass(frozen=True)
class Change:
    """A cell that the two sides disagree on."""

    sort: str  # one of SORTS
    place: Place
    before: State | None
    after: State | None

    @property
    def same_source(self) -> bool:
        """Whether both sides ran the very same source: then the kernel's text is not what changed."""
        both = self.before and self.after
        return bool(both and self.before and self.before.source_digest == both.source_digest != "")

    @property
    def is_regression(self) -> bool:
        """Broken, grown, or bad where nothing was before."""
        new = self.sort == "added" and self.after is not None and self.after.verdict.bad
        return self.sort in ("broken", "grown") or new


def compare(
    before: Mapping[Place, State], after: Mapping[Place, State], factor: float = FACTOR
) -> tuple[Change, ...]:
    """Every difference, regressions first."""
    places = dict.fromkeys([*before, *after])
    found = (_change(place, before.get(place), after.get(place), factor) for place in places)
    return tuple(sorted(filter(None, found), key=lambda one: (SORTS.index(one.sort), one.place)))


def of_cells(cells: Iterable[Cell], with_class: bool) -> dict[Place, State]:
    """The worst of what boards of a class, or of all classes, say of a row; what never ran is left out."""
    return of_states(
        (
            _place(cell.device_class, cell.backend, *cell.row, with_class=with_class),
            State(cell.verdict, cell.bound_ratio, cell.source_digest, flaky="flaky" in cell.flags),
        )
        for cell in cells
        if cell.verdict is not None
    )


def of_jobs(jobs: Iterable[Tried], with_class: bool) -> dict[Place, State]:
    """The worst of a campaign's jobs on a cell."""
    return of_states(
        (
            _place(one.device_class, one.backend, *row_of(one), with_class=with_class),
            State(one.verdict, one.bound_ratio, one.source_digest, one.build_digest, one.flaky),
        )
        for one in jobs
    )


def row_of(one: Tried) -> tuple[str, str, str, str]:
    return one.case.op, one.case.kernel, one.case.kind, one.case.build.value


def _place(device_class: str, *rest: str, with_class: bool) -> Place:
    return (device_class, *rest) if with_class else rest


def of_states(states: Iterable[tuple[Place, State]]) -> dict[Place, State]:
    """One state a place: the worst verdict, the largest margin, flaky if one of them is."""
    found: dict[Place, State] = {}
    for place, state in states:
        other = found.setdefault(place, state)
        worst = min(other, state, key=lambda one: SEVERITY[one.verdict])
        found[place] = State(
            worst.verdict,
            largest((other.bound_ratio, state.bound_ratio)),
            worst.source_digest,
            worst.build_digest if other.build_digest == state.build_digest else "",
            other.flaky or state.flaky,
        )
    return found


def _change(place: Place, was: State | None, now: State | None, factor: float) -> Change | None:
    sort = _sort(was, now, factor)
    return Change(sort, place, was, now) if sort else None


def _sort(was: State | None, now: State | None, factor: float) -> str:
    """Empty where the sides agree."""
    if was is None or now is None:
        return "added" if was is None else "lost"
    grown = _grew(was.bound_ratio, now.bound_ratio, factor)
    if was.verdict is now.verdict and not (now.verdict is Verdict.PASS and grown):
        return ""
    if was.flaky or now.flaky:
        return "flaky"
    if was.build_digest == now.build_digest != "":
        return "same code"
    if was.verdict is now.verdict:
        return "grown"
    if was.verdict.bad == now.verdict.bad:
        return "changed"
    return "fixed" if was.verdict.bad else "broken"


def _grew(was: float | None, now: float | None, factor: float) -> bool:
    return was is not None and now is not None and now >= factor * max(was, LEAST_MARGIN)
