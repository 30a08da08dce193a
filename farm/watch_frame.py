"""The farm in a terminal while it works: campaigns, boards, the matrix in small, the newest bad cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from db.activity import Held
from farm.activity import Activity, BoardNow, CampaignNow, newest_bad
from farm.marks import LETTERS, NEVER_RUN, timestamp
from farm.marks import tally as cells_tally
from farm.matrix import Cell, Matrix
from farm.progress import tally
from farm.terminal import BAD, COMPILES_ONLY, DOUBTED, GOOD, NEVER, SKIPPED, duration, shown, table
from kernels.evidence import Verdict
from kernels.model import Case

BAR, SHORT_BAR = 20, 8  # characters of a progress bar; of one where there is little room
NARROW = 100
BOARDS, FAILURES = 8, 6  # lines of each, at most
GAP = 2
LEGEND = (
    "a letter a kind, in the catalog's order: Pass Fail Crash Timeout Reject Error Lost Skip; "
    f"small: the source has changed since; {NEVER_RUN} never run"
)


def frame(activity: Activity, matrix: Matrix, width: int, height: int) -> RenderableType:
    """Everything that fits `height` lines of `width` characters; 0 lines: as many as there are."""
    parts: list[RenderableType] = [
        campaigns(activity, SHORT_BAR if width < NARROW else BAR),
        boards(activity),
    ]
    bad = failures(newest_bad(matrix, FAILURES), activity.now_us)
    taken = len(activity.campaigns) + min(BOARDS, len(activity.boards)) + len(bad) + 8
    small = list(small_matrix(matrix, width))
    room = len(small) if not height else max(3, height - taken)
    if len(small) > room:
        hidden = len(small) - room + 1
        small = [*small[: room - 1], Text(f"… {hidden} more lines; farm status shows all", NEVER)]
    return Group(*parts, Text(), *small, Text(), *bad)


def campaigns(activity: Activity, bar: int = BAR) -> RenderableType:
    """A line each: how far, how fast, how long still, and with what verdicts."""
    if not activity.campaigns:
        return Text("no campaign yet; farm submit --all-kinds makes one")
    made = table("campaign", "", "jobs", "jobs/min", "left", "verdicts", right=("jobs", "jobs/min"))
    made.columns[1].no_wrap = True
    for one in activity.campaigns:
        row = one.row
        made.add_row(
            Text(str(row.id)),
            _bar(row.done, row.jobs, row.bad, bar),
            Text(f"{row.done:,}/{row.jobs:,}"),
            Text(f"{one.per_minute:,.0f}" if one.per_minute else "–"),
            Text(left_of(one)),
            Text(tally(row), BAD if row.bad else ""),
        )
    if activity.older:
        made.add_row(Text(f"… {activity.older:,} older", NEVER))
    return made


def _bar(done: int, jobs: int, bad: int, length: int) -> Text:
    """#######-----  58 %: readable without colour, too."""
    share = done / jobs if jobs else 0.0
    filled = int(share * length)
    style = BAD if bad else GOOD
    percent = f" {int(share * 100):3d} %"
    return Text.assemble(("#" * filled, style), ("-" * (length - filled), NEVER), percent, no_wrap=True)


def left_of(one: CampaignNow) -> str:
    """about 3 min 20 s, or what it is instead of running."""
    row = one.row
    if row.cancelled_us is not None:
        return "cancelled"
    if not row.is_open:
        return "closed"
    if row.paused_us is not None:
        return "paused"
    return f"about {duration(one.eta_s)}" if one.eta_s is not None else "nobody works on it"


def boards(activity: Activity) -> RenderableType:
    """A line for each board: what it runs, how fast, how warm."""
    if not activity.boards:
        return Text("no device yet")
    made = table("board", "runs", "since", "jobs/min", "°C", right=("since", "jobs/min", "°C"))
    for board in activity.boards[:BOARDS]:
        made.add_row(*_board_row(board, activity.now_us))
    if len(activity.boards) > BOARDS:
        made.add_row(Text(f"… {len(activity.boards) - BOARDS} more", NEVER))
    return made


def _board_row(board: BoardNow, now_us: int) -> Iterator[Text]:
    first = board.running[0] if board.running else None
    yield shown(board.row.device.slug)
    yield shown(_runs(first, board)) if board.is_busy else Text("idle", NEVER)
    yield Text(duration((now_us - (first.started_us or now_us)) / 1e6) if first else "")
    yield Text(f"{board.per_minute:,.0f}" if board.per_minute else "–")
    yield Text("–" if board.celsius is None else f"{board.celsius:.0f}")


def _runs(first: Held | None, board: BoardNow) -> str:
    if first is None:
        return f"{board.waiting} leased" if board.waiting else "between two jobs"
    others = len(board.running) - 1
    more = f", {others} more" if others else ""
    return f"{first.backend} {case_words(first.case)}{more}" + (
        f", {board.waiting} next" * bool(board.waiting)
    )


def case_words(case: Case) -> str:
    """matvec/block Q4_0 37x768 ordinary exact"""
    return f"{case.op}/{case.kernel} {case.kind} {case.shape} {case.family} {case.build}"


def failures(bad: Sequence[Cell], now_us: int) -> list[Text]:
    """The newest bad cells, by the name that `farm show` takes."""
    if not bad:
        return [Text("nothing is bad")]
    lines = [Text("newest bad cells; farm show CELL explains one", "bold")]
    for cell in bad:
        ago = duration((now_us - (cell.last_run_us or now_us)) / 1e6)
        doubt = f" ({', '.join(cell.flags)})" if cell.flags else ""
        line = Text.assemble((str(cell.verdict), BAD), f"{doubt} ", shown(cell.name), f" {ago} ago: ")
        line.append_text(shown(cell.reason))
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    return lines


def small_matrix(matrix: Matrix, width: int) -> Iterator[Text]:
    """One character a kind, a line a kernel, the classes where something ran side by side."""
    matrix = matrix.by_class().across_builds()
    ran = [cell for cell in matrix.cells if cell.verdict]
    if compiled := [cell for cell in ran if cell.backend == COMPILES_ONLY]:
        archs = len({cell.device_class for cell in compiled})
        yield Text(f"{COMPILES_ONLY}, nothing run: {cells_tally(compiled)} on {archs} architectures")
    ran = [cell for cell in ran if cell.backend != COMPILES_ONLY]
    if not ran:
        yield Text("nothing has run yet")
        return
    names = {_kernel(cell) for cell in ran}
    cells = [cell for cell in matrix.cells if _kernel(cell) in names]
    yield from _strips([cell for cell in cells if _place(cell) in set(map(_place, ran))], width)
    if others := len({_kernel(cell) for cell in matrix.cells} - names):
        yield Text(f"{NEVER_RUN} {others} more kernels, which no board ever ran", NEVER)
    yield Text(LEGEND, NEVER)


def _strips(cells: Sequence[Cell], width: int) -> Iterator[Text]:
    """A strip of letters for each kernel and place; a kind has the same column in all of them."""
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(cell.kind for cell in cells))}
    strips: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for cell in cells:
        blank = [(" ", "")] * len(kinds)
        strips.setdefault((_kernel(cell), _place(cell)), blank)[kinds[cell.kind]] = _letter(cell)
    names = list(dict.fromkeys(name for name, _ in strips))
    places = list(dict.fromkeys(place for _, place in strips))
    first = max(map(len, names))
    for part in _parts(places, len(kinds), width - first):
        yield _line("", [(place, [(place, "bold")]) for place in part], first, len(kinds))
        for name in names:
            found = [(place, strips.get((name, place), [])) for place in part]
            yield _line(name, found, first, len(kinds))


def _kernel(cell: Cell) -> str:
    return shown(f"{cell.op}/{cell.kernel}").plain


def _place(cell: Cell) -> str:
    return shown(f"{cell.device_class}/{cell.backend}").plain


def _letter(cell: Cell) -> tuple[str, str]:
    if cell.verdict is None:
        return NEVER_RUN, NEVER
    letter = LETTERS[cell.verdict]
    if "stale" in cell.flags:
        return letter.lower(), DOUBTED
    return letter, BAD if cell.verdict.bad else SKIPPED if cell.verdict is Verdict.SKIP else GOOD


def _parts(places: Sequence[str], kinds: int, width: int) -> Iterator[list[str]]:
    """As many places side by side as fit, one at least."""
    part: list[str] = []
    used = 0
    for place in places:
        wide = GAP + max(len(place), kinds)
        if part and used + wide > width:
            yield part
            part, used = [], 0
        part.append(place)
        used += wide
    yield part


def _line(name: str, strips: Iterable[tuple[str, list[tuple[str, str]]]], first: int, kinds: int) -> Text:
    """The name, padded to `first`, and under each place its strip."""
    line = Text(f"{name:<{first}}", no_wrap=True, overflow="crop")
    for place, letters in strips:
        strip = Text.assemble(*letters)
        line.append(" " * GAP).append_text(strip).append(" " * (max(len(place), kinds) - strip.cell_len))
    line.rstrip()
    return line


def heading(activity: Activity) -> Text:
    return Text(f"== {timestamp(activity.now_us)}", "bold")
