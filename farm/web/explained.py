"""A cell's page: why it has its verdict, what changed in its source since, what became of it over time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from db import benchmark, bug, history
from db.benchmark import Timed
from db.bug import Bug, Subject
from db.history import Line, Place, State
from db.session import Session
from farm import build_text, dossier
from farm.dossier import Dossier
from farm.marks import timestamp
from farm.matrix import Cell, Matrix
from farm.web.boards import system_of
from kernels import registry, source
from kernels.built import BuildRecord
from kernels.errors import FarmError

NEWEST = 200  # lines of history
AROUND = 3  # unchanged lines that are shown around a change
Record = dict[str, Any]


def cell(s: Session, matrix: Matrix, parts: Sequence[Cell], name: str) -> Record:
    """The dossiers of a cell's classes, its history and its bugs."""
    places = [Place(one.device, one.backend, *one.row) for one in parts if one.device and one.verdict]
    lines = history.lines(s, places, NEWEST)
    states = {state.digest: state for place in places for state in history.states(s, place.device)}
    first = parts[0]
    return {
        "about": {
            "op": first.op,
            "kernel": first.kernel,
            "kind": first.kind,
            "device_class": first.device_class,
        },
        "found": [_document(s, matrix, one) for one in dossier.of_cell(s, matrix, name)],
        "history": [_line(line, parts, states) for line in lines],
        "times": [_time(one) for place in places for one in benchmark.of_place(s, place)][-NEWEST:],
        "good": first_good(lines, states),
        "bugs": bugs_of(bug.bugs(s), parts),
    }


def _document(s: Session, matrix: Matrix, found: Dossier) -> Record:
    """What `farm show --json` prints, and what the page says beside it."""
    case = found.line.case if found.line else None
    return dossier.document(found) | {
        "shape": str(case.shape) if case else "",
        "family": case.family if case else "",
        "finished": timestamp(found.line.finished_us) if found.line else None,
        "texts": list(texts(found)),
        "change": change(found),
        "builds": list(builds(s, matrix, found)),
    }


def texts(found: Dossier) -> Iterator[Record]:
    """The texts as they ran, each with the lines that differ from today's."""
    for then in found.sources:
        now = _text_now(then.kernel, then.kind) if found.is_stale else then.text
        diff = [] if now is None else list(difference(then.text, now))
        yield {"kernel": then.kernel, "kind": then.kind, "text": then.text, "diff": diff}


def change(found: Dossier) -> str:
    """In words, how the source that ran stands to today's; empty where it is today's."""
    if not found.is_stale:
        return ""
    if not found.current_digest:
        return "This catalog has no such kernel, kind or build any more."
    if found.sources and all(_text_now(then.kernel, then.kind) == then.text for then in found.sources):
        return "The CUDA text is what it was: geometry, arguments, twin or decode have changed since it ran."
    return ""


def _text_now(kernel: str, kind: str) -> str | None:
    """Today's text; None where this catalog makes none."""
    try:
        registry.kernel(kernel)
        return source.text(kernel, kind)
    except (FarmError, OSError):
        return None


def difference(then: str, now: str) -> Iterator[tuple[str, str]]:
    """(del, add, at or same; line) of a unified diff; nothing where the texts are equal."""
    sorts = {"-": "del", "+": "add", "@": "at"}
    lines = difflib.unified_diff(then.splitlines(), now.splitlines(), n=AROUND, lineterm="")
    for number, line in enumerate(lines):
        if number > 1:  # the names of files, which these have not
            yield sorts.get(line[:1], "same"), line if line[:1] == "@" else line[1:]


def builds(s: Session, matrix: Matrix, found: Dossier) -> Iterator[Record]:
    """What compilers said: the line's own, then nvrtc's for the board's architecture."""
    if found.line is None or found.cell is None:
        return
    for build in found.line.builds:
        yield _build("this line", build)
    sms = {one.sm for one in matrix.columns if one.device_class == found.cell.device_class and one.sm}
    for sm in sorted(sms) if found.cell.backend == "cuda" else ():
        cells = (one for one in matrix.cells if one.backend == "nvrtc" and one.device == sm)
        same = [one for one in cells if one.row[:3] == found.cell.row[:3] and one.verdict]
        line = dossier.of_parts(s, same).line if same else None
        for build in line.builds if line else ():
            yield _build(f"nvrtc for {sm}", build)


def _build(who: str, build: BuildRecord) -> Record:
    return {"from": who, "lines": list(build_text.lines(build)), "log": build.log}


def bugs_of(linked: Sequence[Bug], cells: Sequence[Cell]) -> list[Record]:
    """Bugs that are about one of these cells."""
    subjects = {subject_of(cell) for cell in cells}
    return [
        {"id": one.id, "url": one.url, "build": one.subject.build, "linked_at": timestamp(one.linked_us)}
        for one in linked
        if any(one.is_about(subject) for subject in subjects)
    ]


def subject_of(cell: Cell, with_build: bool = True) -> Subject:
    build = cell.build if with_build else ""
    return Subject(cell.device_class, cell.backend, cell.op, cell.kernel, cell.kind, build)


def first_good(lines: Sequence[Line], states: dict[str, State]) -> str:
    """The oldest driver or system that passed this cell and was never bad at it; empty where none did."""
    seen: dict[str, list[Line]] = {}
    for line in reversed(lines):
        state = states.get(line.fingerprint_digest)
        if state and (system := system_of(state.device)):
            seen.setdefault(system, []).append(line)
    for label, its in seen.items():
        words = {line.verdict for line in its}
        if "PASS" in words and not any(word.bad for word in words):
            return label
    return ""


def _time(one: Timed) -> Record:
    spread = one.benchmark.spread
    return {
        "finished": timestamp(one.finished_us),
        "shape": one.shape,
        "device": one.key.device,
        "build": one.key.build,
        "source": one.key.source_digest,
        "median_us": spread.median_us,
        "p10_us": spread.p10_us,
        "p90_us": spread.p90_us,
        "gb_per_s": one.benchmark.gb_per_s,
        "share_of_least": one.benchmark.share_of_least,
    }


def _line(line: Line, parts: Sequence[Cell], states: dict[str, State]) -> Record:
    state = states.get(line.fingerprint_digest)
    known = dict(state.device.fingerprint) if state else {}
    now = {one.source_digest for one in parts if "stale" not in one.flags}
    return {
        "evidence_id": line.evidence_id,
        "finished": timestamp(line.finished_us),
        "verdict": line.verdict,
        "shape": str(line.case.shape),
        "family": line.case.family,
        "build": line.build,
        "margin": line.bound_ratio,
        "source": line.source_digest,
        "old": line.source_digest not in now,
        "device": line.device,
        "driver": known.get("driver", known.get("os", "")),
        "campaign": line.campaign_id,
        "trust": line.trust,
        "counts": line.folded,
        "reason": line.reason,
    }
