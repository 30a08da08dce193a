"""The farm in a terminal while it works: campaigns, boards, the matrix in small, the newest bad cells.

seen = known(matrix, width, height)                # what a frame shows of a matrix, worked out once
frame(activity, seen, width, height)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from db.activity import Held
from farm.activity import Activity, BoardNow, CampaignNow, newest_bad
from farm.marks import timestamp
from farm.matrix import Cell, Matrix
from farm.progress import tally
from farm.small_matrix import Small, small_matrix
from farm.terminal import BAD, GOOD, NEVER, duration, shown, table
from kernels.model import Case

BAR, SHORT_BAR = 20, 8  # characters of a progress bar; of one where there is little room
NARROW = 100
BOARDS, FAILURES = 8, 6  # lines of each, at most


@dataclass(frozen=True)
class Known:
    """What a frame shows of a matrix."""

    small: Small
    bad: tuple[Cell, ...]  # the newest first


def known(matrix: Matrix, width: int, height: int) -> Known:
    """For a terminal of that size; 0 lines: as many as there are."""
    return Known(small_matrix(matrix, width, height), tuple(newest_bad(matrix, FAILURES)))


def frame(activity: Activity, seen: Known, width: int, height: int) -> RenderableType:
    """Everything that fits `height` lines of `width` characters; 0 lines: as many as there are."""
    parts: list[RenderableType] = [
        campaigns(activity, SHORT_BAR if width < NARROW else BAR),
        boards(activity),
    ]
    bad = failures(seen.bad, activity.now_us)
    taken = len(activity.campaigns) + min(BOARDS, len(activity.boards)) + len(bad) + 8
    small = list(seen.small.lines)
    room = seen.small.total if not height else max(3, height - taken)
    if seen.small.total > room:
        hidden = seen.small.total - room + 1
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


def heading(activity: Activity) -> Text:
    return Text(f"== {timestamp(activity.now_us)}", "bold")
