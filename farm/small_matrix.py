"""The matrix in small: a letter a kind, a line a kernel, the places where something ran side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
Groups = Mapping[tuple[Kernel, Place, str], Cells]  # by kernel, place and kind, in the matrix' order


def small_matrix(matrix: Matrix, width: int) -> Iterator[Text]:
    """Lines of `width` characters, but for a name that is longer; a matrix may have 200,000 cells."""
    groups = _together(matrix.cells)
    ran = {key for key, cells in groups.items() if any(cell.verdict for cell in cells)}
    if compiled := [merge(groups[key]) for key in groups if key in ran and key[1][1] == COMPILES_ONLY]:
        archs = len({cell.device_class for cell in compiled})
        yield Text(f"{COMPILES_ONLY}, nothing run: {tally(compiled)} on {archs} architectures")
    ran = {key for key in ran if key[1][1] != COMPILES_ONLY}
    if not ran:
        yield Text("nothing has run yet")
        return
    kernels, places = {kernel for kernel, _, _ in ran}, {place for _, place, _ in ran}
    yield from _strips({key: groups[key] for key in groups if key[0] in kernels and key[1] in places}, width)
    if others := len({kernel for kernel, _, _ in groups} - kernels):
        yield Text(f"{NEVER_RUN} {others} more kernels, which no board ever ran", NEVER)
    yield Text(LEGEND, NEVER)


def _together(cells: Iterable[Cell]) -> dict[tuple[Kernel, Place, str], list[Cell]]:
    found: dict[tuple[Kernel, Place, str], list[Cell]] = {}
    for cell in cells:
        key = (cell.op, cell.kernel), (cell.device_class, cell.backend), cell.kind
        found.setdefault(key, []).append(cell)
    return found


def _strips(groups: Groups, width: int) -> Iterator[Text]:
    """A strip of letters for each kernel and place; a kind has the same column in all of them."""
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(kind for _, _, kind in groups))}
    strips: dict[tuple[Kernel, Place], list[Letter]] = {}
    for (kernel, place, kind), cells in groups.items():
        strip = strips.get((kernel, place))
        if strip is None:
            strip = strips[kernel, place] = [(" ", "")] * len(kinds)
        strip[kinds[kind]] = _letter(cells)
    kernels = {kernel: shown("/".join(kernel)).plain for kernel, _ in strips}
    places = {place: shown("/".join(place)).plain for _, place in strips}
    first = max(map(len, kernels.values()))
    for part in _parts(places, len(kinds), width - first):
        yield _line("", [(name, [(name, "bold")]) for name in part.values()], first, len(kinds))
        for kernel, called in kernels.items():
            found = [(name, strips.get((kernel, place), [])) for place, name in part.items()]
            yield _line(called, found, first, len(kinds))


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


def _line(name: str, strips: Iterable[tuple[str, Sequence[Letter]]], first: int, kinds: int) -> Text:
    """The name, padded to `first`, and under each place its strip."""
    line = Text(f"{name:<{first}}", no_wrap=True, overflow="crop")
    for place, letters in strips:
        strip = Text.assemble(*letters)
        line.append(" " * GAP).append_text(strip).append(" " * (max(len(place), kinds) - strip.cell_len))
    line.rstrip()
    return line
