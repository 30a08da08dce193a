"""How a cell is written down, the same in every table, and what its words mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from farm.matrix import Cell
from kernels.evidence import Verdict

NEVER_RUN = "·"

# Verdict, what it means, who acts.
LEGEND: tuple[tuple[str, str, str], ...] = (
    (Verdict.PASS, "inside its rule at every element", "nobody"),
    (
        Verdict.FAIL,
        "it ran and is wrong: numbers, an unwritten output, a guard band, differing repeats",
        "kernel author",
    ),
    (Verdict.CRASH, "it took its process or context down", "kernel author"),
    (Verdict.TIMEOUT, "it outlived its deadline and was killed", "kernel author"),
    (Verdict.REJECT, "the compiler or loader refused it for this device", "kernel author"),
    (Verdict.ERROR, "the farm or the host is at fault; nothing is known about the kernel", "operator"),
    (Verdict.LOST, "workers vanished until the budget for that was spent", "operator"),
    (Verdict.SKIP, "refused: not this shape, device or input; the reason says why", "nobody"),
    (NEVER_RUN, "never run here: nothing is known", "whoever has the device"),
)

# One letter a verdict, where there is no room for more.
LETTERS = {verdict: verdict.value[0] for verdict in Verdict}

FLAGS: dict[str, tuple[str, str]] = {  # flag -> (sign in narrow tables, meaning)
    "stale": ("~", "the source has changed since; the verdict is about the old one"),
    "flaky": ("!", "the same source passed and was bad at the same case"),
    "suspect": ("?", "the board is set aside"),
    "untrusted": ("<", "it ran, but what it rests on is less trusted than was asked for"),
    "spills": ("^", "the compiler put registers into memory"),
    "one-block": ("|", "an SM holds a single block of it at a time"),
}
BY_AUTHOR = (
    "spills",
    "one-block",
)  # flags that say something of the kernel; the others are for whoever runs it


def mark(cell: Cell) -> str:
    """PASS, FAIL (stale), or · for never run; in front of a verdict stands nothing else."""
    word = cell.verdict or NEVER_RUN
    return f"{word} ({', '.join(cell.flags)})" if cell.flags else str(word)


def narrow_mark(cell: Cell) -> str:
    """As `mark`, with one sign per flag: PASS~."""
    return (cell.verdict or NEVER_RUN) + signs(cell.flags)


def signs(flags: Iterable[str]) -> str:
    """One sign per flag."""
    return "".join(FLAGS[flag][0] for flag in flags if flag in FLAGS)


def tally(cells: Iterable[Cell]) -> str:
    """58 PASS, 1 FAIL, 1 stale, 2 never run"""
    cells = list(cells)
    counts = Counter(cell.verdict for cell in cells)
    parts = [f"{counts[verdict]:,} {verdict}" for verdict in Verdict if counts[verdict]]
    stale = sum("stale" in cell.flags for cell in cells)
    parts += [f"{stale:,} of them stale"] * bool(stale)
    parts += [f"{counts[None]:,} never run"] * bool(counts[None])
    return ", ".join(parts) or "no cells"


def timestamp(us: int) -> str:
    """2026-11-29T20:01:02Z"""
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
