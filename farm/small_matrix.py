"""The matrix in small: a letter a kind, a line a kernel, the places where something ran side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from rich.text import Text

from farm.marks import LETTERS, NEVER_RUN, tally
from farm.matrix import Cell, Matrix, counting, merge, worst_of
from farm.terminal import BAD, COMPILES_ONLY, DOUBTED, GOOD, NEVER, SKIPPED, shown
from kernels.evidence import Verdict

GAP = 2
LEGEND = (
    "a letter a kind, in the catalog's order: Pass Fail Crash Timeout Reject Error Lost Skip; "
    f"small: the source has changed since; {NEVER_RUN} never run"
)

Kernel = tuple[str, str]  # op, name
Place = tuple[str, str]  # device class, backend
Letter = tuple[str, str]  # a character and its style
Cells = Sequence[Cell]  # of one kernel, kind and place: its boards and builds
Groups = Mapping[tuple[Kernel, Place], Mapping[str, Cells]]  # by kernel and place, then by kind


@dataclass(frozen=True)
class Small:
    """A matrix in small, as far as there is room for it."""

    lines: tuple[Text, ...]
    total: int  # lines of the whole


def small_matrix(matrix: Matrix, width: int, most: int = 0) -> Small:
    """The first `most` lines, 0 for all, of `width` characters but for a name that is longer.

    A matrix may have 200,000 cells, and a terminal shows some thirty lines: the others are counted, not made.
    """
    groups, ran = _together(matrix.cells)
    head = list(_compiled(groups, ran))
    ran = {key for key in ran if key[1][1] != COMPILES_ONLY}
    if not ran:
        return _cut([*head, Text("nothing has run yet")], len(head) + 1, most)
    kernels, places = {kernel for kernel, _ in ran}, {place for _, place in ran}
    mine = {key: groups[key] for key in groups if key[0] in kernels and key[1] in places}
    tail = [Text(LEGEND, NEVER)]
    if others := len({kernel for kernel, _ in groups} - kernels):
        tail.insert(0, Text(f"{NEVER_RUN} {others} more kernels, which no board ever ran", NEVER))
    strips = Strips(mine, width)
    return _cut(chain(head, strips.lines(), tail), len(head) + strips.total + len(tail), most)


def _cut(lines: Iterable[Text], total: int, most: int) -> Small:
    return Small(tuple(islice(lines, most or None)), total)


def _together(cells: Iterable[Cell]) -> tuple[Groups, set[tuple[Kernel, Place]]]:
    """The cells by kernel, place and kind, in their order, and where something ran."""
    found: dict[tuple[Kernel, Place], dict[str, list[Cell]]] = {}
    ran: set[tuple[Kernel, Place]] = set()
    for cell in cells:
        key = (cell.op, cell.kernel), (cell.device_class, cell.backend)
        found.setdefault(key, {}).setdefault(cell.kind, []).append(cell)
        if cell.verdict:
            ran.add(key)
    return found, ran


def _compiled(groups: Groups, ran: Collection[tuple[Kernel, Place]]) -> Iterator[Text]:
    mine = [groups[key].values() for key in groups if key in ran and key[1][1] == COMPILES_ONLY]
    if compiled := [merge(cells) for kinds in mine for cells in kinds if any(cell.verdict for cell in cells)]:
        archs = len({cell.device_class for cell in compiled})
        yield Text(f"{COMPILES_ONLY}, nothing run: {tally(compiled)} on {archs} architectures")


class Strips:
    """A strip of letters for each kernel and place; a kind has the same column in all of them."""

    def __init__(self, groups: Groups, width: int) -> None:
        self._groups = groups
        self._kinds = list(dict.fromkeys(kind for kinds in groups.values() for kind in kinds))
        self._kernels = {kernel: shown("/".join(kernel)).plain for kernel, _ in groups}
        self._first = max(map(len, self._kernels.values()))
        places = {place: shown("/".join(place)).plain for _, place in groups}
        self._parts = list(_parts(places, len(self._kinds), width - self._first))

    @property
    def total(self) -> int:
        return len(self._parts) * (1 + len(self._kernels))

    def lines(self) -> Iterator[Text]:
        for part in self._parts:
            yield self._line("", {name: [(name, "bold")] for name in part.values()})
            for kernel, called in self._kernels.items():
                yield self._line(called, {name: self._strip(kernel, place) for place, name in part.items()})

    def _strip(self, kernel: Kernel, place: Place) -> list[Letter]:
        kinds = self._groups.get((kernel, place), {})
        return [_letter(kinds[kind]) if kind in kinds else (" ", "") for kind in self._kinds]

    def _line(self, name: str, strips: Mapping[str, Sequence[Letter]]) -> Text:
        """The name, and under each place its strip."""
        line = Text(f"{name:<{self._first}}", no_wrap=True, overflow="crop")
        for place, letters in strips.items():
            strip, wide = Text.assemble(*letters), max(len(place), len(self._kinds))
            line.append(" " * GAP).append_text(strip).append(" " * (wide - strip.cell_len))
        line.rstrip()
        return line


def _letter(cells: Cells) -> Letter:
    """Of the worst of those that count."""
    counted = counting(cells)
    verdict = worst_of(counted).verdict
    if verdict is None:
        return NEVER_RUN, NEVER
    letter = LETTERS[verdict]
    if any("stale" in cell.flags for cell in counted):
        return letter.lower(), DOUBTED
    return letter, BAD if verdict.bad else SKIPPED if verdict is Verdict.SKIP else GOOD


def _parts(places: Mapping[Place, str], kinds: int, width: int) -> Iterator[dict[Place, str]]:
    """As many places side by side as fit, one at least, with their names."""
    part: dict[Place, str] = {}
    used = 0
    for place, name in places.items():
        wide = GAP + max(len(name), kinds)
        if part and used + wide > width:
            yield part
            part, used = {}, 0
        part[place] = name
        used += wide
    yield part
