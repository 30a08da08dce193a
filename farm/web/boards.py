"""A board's page: what it is, the drivers it was seen with, and how it stands among those of its class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from db import device as devices_of
from db import history, trust
from db.history import State
from db.session import Session
from farm.marks import timestamp
from farm.matrix import Cell, Matrix
from farm.records import device_record
from kernels.errors import UnknownName
from kernels.evidence import Verdict
from kernels.model import Device

MOST = 200  # cells that stand apart
SYSTEM = ("driver", "os", "libc", "compiler")  # what may change on a board from one day to the next
Record = dict[str, Any]


def device(s: Session, matrix: Matrix, slug: str) -> Record:
    """Everything about one board; UnknownName lists those that there are."""
    known = {row.device.slug: row for row in devices_of.devices(s)}
    if slug not in known:
        raise UnknownName("device", slug, list(known))
    states = history.states(s, slug)
    device_class = known[slug].device.device_class
    peers = [cell for cell in matrix.cells if cell.device_class == device_class and cell.device]
    mine = [cell for cell in peers if cell.device == slug]
    slugs = sorted({str(cell.device) for cell in peers})
    return {
        "device": device_record(known[slug]),
        "aside": trust.why_aside(s, slug),
        "counts": tally(mine),
        "bad": [_named(cell) for cell in mine if cell.verdict and cell.verdict.bad],
        "states": [_state(state) for state in states],
        "first_good": next((_state(one) for one in states if one.is_good and system_of(one.device)), None),
        "class": {name: tally([cell for cell in peers if cell.device == name]) for name in slugs},
        "apart": apart(mine, [cell for cell in peers if cell.device != slug])[:MOST],
    }


def tally(cells: Sequence[Cell]) -> Record:
    """Cells by verdict, and how many are doubtful or were never run."""
    found = Counter(cell.verdict for cell in cells)
    flags = Counter(flag for cell in cells for flag in cell.flags)
    verdicts = {verdict.value: found[verdict] for verdict in Verdict if found[verdict]}
    doubts = {flag: flags[flag] for flag in ("stale", "flaky", "suspect")}
    return {"cells": len(cells), "verdicts": verdicts, "never_run": found[None], **doubts}


def apart(mine: Iterable[Cell], others: Iterable[Cell]) -> list[Record]:
    """Cells whose verdict no other board of the class has, though one ran the same."""
    elsewhere: dict[tuple[object, ...], Counter[str]] = {}
    for cell in others:
        if cell.verdict:
            elsewhere.setdefault((cell.backend, *cell.row), Counter())[cell.verdict.value] += 1
    found = []
    for cell in mine:
        seen = elsewhere.get((cell.backend, *cell.row), Counter())
        if cell.verdict and seen and cell.verdict.value not in seen:
            words = {"row": "/".join((cell.backend, *cell.row)), "others": dict(seen)}
            found.append(_named(cell) | words)
    return found


def _named(cell: Cell) -> Record:
    return {"name": cell.name, "verdict": cell.verdict, "flags": cell.flags, "reason": cell.reason}


def _state(state: State) -> Record:
    return {
        "label": system_of(state.device) or "unknown",
        "first_seen": timestamp(state.first_seen_us),
        "verdicts": dict(state.verdicts),
        "good": state.is_good,
        "fingerprint": dict(state.device.fingerprint),
    }


def system_of(device: Device) -> str:
    """driver 550.54, or what else of a board changes: os Linux 6.1, libc glibc 2.36; empty if unknown."""
    known = dict(device.fingerprint)
    return ", ".join(f"{key} {known[key]}" for key in SYSTEM if key in known)
