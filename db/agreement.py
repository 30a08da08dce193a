"""Boards that ran the same case: whether they came to the same, and what that makes of a cell's trust.

meetings(s, lines) -> tuple[Meeting, …]          # where another board ran a line's case and source
note(s, meetings, now_us)                        # who agreed with whom, about which cell
doubt(s, slug, since_us)                         # a board that is set aside agrees with nobody any more
levels(s, cells) -> tuple[Capability, …]         # each with its place in LEVELS as its trust
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.cell import TRUST, Capability, CellKey
from db.evidence import key_of
from db.session import Session, insert_new
from db.tables import CELL, agreement, evidence
from kernels.evidence import Evidence, Verdict
from kernels.model import Build

# What a cell rests on, least first. Whoever asks for one of them takes those behind it, too.
LEVELS = ("suspect", *TRUST, "confirmed")
WITNESSES = TRUST[1:]  # whose word counts: a bundle may have been written by anybody

COLUMNS = (
    "case_id", "source_digest", "inputs_digest", "device", "device_class", "backend", "verdict",
    "output_digest", "trust",
)  # fmt: skip
OF_CASES = (
    sa.select(*(evidence.c[name] for name in COLUMNS))
    .where(evidence.c.case_id.in_(sa.bindparam("case_ids", expanding=True)), ~evidence.c.suspect)
    .distinct()
)


@dataclass(frozen=True)
class Board:
    """What another board said of a line's case."""

    slug: str
    output_digest: str


@dataclass(frozen=True)
class Meeting:
    """A line and the other boards that ran the same case of the same source over the same inputs."""

    line: Evidence
    agreeing: tuple[Board, ...]  # of its class: the same verdict, and in the exact build the same bits
    differing: tuple[Board, ...]  # in the exact build, where one passed: other bits, or another verdict


def meetings(s: Session, lines: Iterable[Evidence]) -> tuple[Meeting, ...]:
    """The lines whose case another board ran; those that say nothing about a kernel meet nobody."""
    telling = [line for line in lines if line.verdict.about_kernel and line.verdict is not Verdict.SKIP]
    if not telling:
        return ()
    others: defaultdict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for row in s.execute(OF_CASES, {"case_ids": list({line.case_id for line in telling})}):
        others[row.case_id, row.source_digest, row.inputs_digest].append(row)
    met = (_meeting(line, others[line.case_id, line.source_digest, line.inputs_digest]) for line in telling)
    return tuple(one for one in met if one.agreeing or one.differing)


def _meeting(line: Evidence, rows: Sequence[Any]) -> Meeting:
    rows = [row for row in rows if row.device != line.device.slug]
    return Meeting(line, _boards(line, rows, _agrees), _boards(line, rows, _differs))


def _boards(line: Evidence, rows: Sequence[Any], says: Any) -> tuple[Board, ...]:
    chosen = {Board(row.device, row.output_digest) for row in rows if says(line, row)}
    return tuple(sorted(chosen, key=lambda board: (board.slug, board.output_digest)))


def _agrees(line: Evidence, row: Any) -> bool:
    same_place = (row.device_class, row.backend) == (line.device.device_class, line.backend)
    same_bits = line.case.build is not Build.EXACT or row.output_digest == line.output_digest
    told = row.verdict == line.verdict.value and row.trust in WITNESSES and line.trust in WITNESSES
    return same_place and told and same_bits


def _differs(line: Evidence, row: Any) -> bool:
    """Two that passed with other bits, wherever they ran; on one class, one that passed and one that failed.

    Kernels without approximations have one digest wherever they run: two mean that a board computes wrong.
    """
    if line.case.build is not Build.EXACT or not (line.output_digest and row.output_digest):
        return False
    said = {line.verdict.value, row.verdict}
    same_place = (row.device_class, row.backend) == (line.device.device_class, line.backend)
    contradicts = said == {Verdict.PASS.value} or (
        same_place and said == {Verdict.PASS.value, Verdict.FAIL.value}
    )
    return contradicts and row.output_digest != line.output_digest


def note(s: Session, met: Iterable[Meeting], now_us: int) -> None:
    """Writes down which boards agreed about a cell; once for each of the two."""
    pairs: dict[tuple[CellKey, str, str], None] = {}
    for one in met:
        key, verdict = key_of(one.line), one.line.verdict.value
        for board in one.agreeing:
            pairs[key, board.slug, verdict] = None
            pairs[key._replace(device=board.slug), key.device, verdict] = None
    rows = [
        {name: getattr(key, name) for name in CELL}
        | {"other": other, "verdict": verdict, "agreed_us": now_us}
        for key, other, verdict in pairs
    ]
    insert_new(s, agreement, rows)


def doubt(s: Session, slug: str, since_us: int) -> None:
    """Forgets what a board agreed about since."""
    either = sa.or_(agreement.c.device == slug, agreement.c.other == slug)
    s.execute(sa.delete(agreement).where(either, agreement.c.agreed_us > since_us))


def levels(s: Session, cells: Iterable[Capability]) -> tuple[Capability, ...]:
    """The cells with their level as their trust.

    Confirmed is a cell that another board of the class came to the same verdict about, over one of its cases
    at least; one that passed and failed over the same case is not.
    """
    columns = [agreement.c[name] for name in (*CELL, "verdict")]
    agreed = {(CellKey(*row[:-1]), row[-1]) for row in s.execute(sa.select(*columns).distinct())}
    return tuple(
        cell._replace(trust=_level(cell, (cell.key, cell.verdict.value) in agreed)) for cell in cells
    )


def _level(cell: Capability, is_agreed: bool) -> str:
    if "suspect" in cell.flags:
        return "suspect"
    return "confirmed" if is_agreed and cell.trust in WITNESSES and "flaky" not in cell.flags else cell.trust
