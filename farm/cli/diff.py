"""Says what changed between two campaigns, devices or exports: added, lost, fixed, broken, margins grown."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from db.campaign import campaign_row
from db.outcomes import of_campaign
from db.session import open_existing
from farm import difference, steps
from farm.cli import options
from farm.difference import Change, Place, State
from farm.matrix import Matrix
from farm.reader import read_matrix
from farm.steps import Step
from farm.terminal import console, shown
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict
from workers.clock import wall_clock

SCHEMA = 1  # of an export that is read


@click.command(short_help=__doc__)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--fail-on", type=click.Choice(["regression", "change"]), help="Exit with 3 where there is one."
)
@click.option(
    "--factor",
    type=options.Finite(1.0, 1e6, min_open=True),
    default=difference.FACTOR,
    show_default=True,
    help="By how much a margin must grow.",
)
@options.database
@options.as_json
def diff(before: str, after: str, fail_on: str | None, factor: float, url: str, as_json: bool) -> int:
    """Say what changed between A and B.

    \b
    farm diff 12 15                          # campaigns
    farm diff rtx-3060 rtx-4090              # devices: class, board or glob
    farm diff last-week.json this-week.json  # files of farm export --format json

    A regression is a cell that was fine and is bad, one that is bad and wasn't there, and a PASS whose worst
    element came --factor times nearer to its limit. Flaky cells are told apart, and so is what ran the very
    same compiled code, which is noise; equal sources are said. Campaigns that were timed (--bench) are told
    apart by steps in the series of their benchmarks, too: slower is a regression, where the code is another.
    """
    with_class = not any(map(_is_device, (before, after)))
    sides = _side(before, url, with_class), _side(after, url, with_class)
    found = difference.compare(*sides, factor=factor)
    moved = _steps(before, after, url)
    if as_json:
        document = _document(before, after, found) | {"steps": [_step_record(step) for step in moved]}
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _show(found, sides)
        for step in moved:
            console().print(shown(_step_line(step)), soft_wrap=True)
    regressed = any(one.is_regression for one in found) or any(step.sort == "slower" for step in moved)
    changed = bool(found) or any(not step.is_noise for step in moved)
    return 3 if (regressed if fail_on == "regression" else changed and fail_on) else 0


def _is_device(word: str) -> bool:
    return not word.endswith(".json") and not (word.isascii() and word.isdigit())


def _steps(before: str, after: str, url: str) -> tuple[Step, ...]:
    """Changes of speed between two campaigns that were timed; nothing for devices and exports."""
    if not all(word.isascii() and word.isdigit() for word in (before, after)):
        return ()
    with open_existing(url).reading() as s:
        return steps.of_campaigns(s, int(before[:25]), int(after[:25]))


def _step_line(step: Step) -> str:
    """`slower    rtx-3060-1/cuda/matvec/block/Q4_K/default 4096x4096  310.2 -> 372.1 µs, 1.20 times`."""
    key = step.after.key
    place = "/".join((key.device, key.backend, key.op, key.kernel, key.kind, key.build))
    was, now = (one.benchmark.spread.median_us for one in (step.before, step.after))
    return f"{step.sort:<9} {place} {step.after.shape}  {was:,.1f} -> {now:,.1f} µs, {step.ratio:.2f} times"


def _step_record(step: Step) -> dict[str, Any]:
    return {
        "cell": step.after.key._asdict(),
        "shape": step.after.shape,
        "before": step.before.evidence_id,
        "after": step.after.evidence_id,
        "ratio": step.ratio,
        "same_code": step.is_noise,
        "regression": step.sort == "slower",
    }


def _side(word: str, url: str, with_class: bool) -> dict[Place, State]:
    if word.endswith(".json"):
        return _of_export(word, with_class)
    with open_existing(url).reading() as s:
        if not _is_device(word):
            campaign_id = int(word[:25])
            campaign_row(s, campaign_id)
            return difference.of_jobs(of_campaign(s, campaign_id), with_class)
        matrix: Matrix = read_matrix(s, wall_clock())
    return difference.of_cells(matrix.of_device(word).by_class().cells, with_class)


def _of_export(name: str, with_class: bool) -> dict[Place, State]:
    """The cells of a JSON export that ran; one board's where it has several of a class, the worst counts."""
    try:
        document = json.loads(Path(name).read_text(encoding="utf8"))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{name} has schema {document['schema']}, wanted {SCHEMA}; export it again")
        cells = [_Exported(cell) for cell in document["cells"] if cell["verdict"] is not None]
        return difference.of_states((one.place(with_class), one.state) for one in cells)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise FarmError(f"{name} is no JSON export: {what}; farm export --format json writes one") from None


class _Exported:
    """A cell as an export has it."""

    def __init__(self, cell: dict[str, Any]) -> None:
        row = (cell["backend"], cell["op"], cell["kernel"], cell["kind"], cell["build"])
        self._names = tuple(map(str, (cell["device_class"], *row)))
        ratio = cell["bound_ratio"]
        self.state = State(
            Verdict(cell["verdict"]),
            None if ratio is None else float(ratio),
            str(cell["source_digest"]),
            flaky="flaky" in cell["flags"],
        )

    def place(self, with_class: bool) -> Place:
        return self._names if with_class else self._names[1:]


def _show(found: Sequence[Change], sides: Sequence[dict[Place, State]]) -> None:
    out = console()
    for one in found:
        out.print(shown(_line(one)), soft_wrap=True)
    counts = Counter(one.sort for one in found)
    told = ", ".join(f"{counts[sort]} {sort}" for sort in difference.SORTS if counts[sort])
    shared = len(sides[0].keys() & sides[1].keys())
    out.print(
        shown(f"{len(sides[0])} and {len(sides[1])} cells, {shared} on both sides: {told or 'no change'}")
    )


def _line(one: Change) -> str:
    """`broken  matvec/block/Q4_0/exact  PASS -> FAIL, same source`."""
    words = [f"{_state(one.before)} -> {_state(one.after)}"]
    words += ["same source"] * one.same_source
    return f"{one.sort:<9} {'/'.join(one.place)}  {', '.join(words)}"


def _state(state: State | None) -> str:
    if state is None:
        return "nothing"
    return state.verdict + (f" at {state.bound_ratio:.3g}" if state.bound_ratio is not None else "")


def _document(before: str, after: str, found: Sequence[Change]) -> dict[str, Any]:
    changes = [
        {"sort": one.sort, "cell": "/".join(one.place), "regression": one.is_regression}
        | {"same_source": one.same_source, "before": _record(one.before), "after": _record(one.after)}
        for one in found
    ]
    return {"schema": 1, "before": before, "after": after, "changes": changes}


def _record(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    ratio = state.bound_ratio
    return asdict(state) | {"bound_ratio": ratio if ratio is not None and math.isfinite(ratio) else None}


COMMAND = diff
