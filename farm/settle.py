"""Where two boards came to other things over one exact case, the twin says which of them is set aside.

settle(s, lines, now_us) -> Settled      # lines that were just stored; who agreed is noted as well
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from db import agreement, trust
from db.agreement import Board, Meeting
from db.cases import asked_for
from db.session import Session
from farm.exam import settles
from kernels.evidence import Evidence
from workers.exam import twin_digest


@dataclass(frozen=True)
class Settled:
    """What lines say of the boards that they and others came from."""

    aside: tuple[tuple[str, str], ...]  # slug and reason
    unsettled: frozenset[str]  # slugs of boards that differ where the twin can't tell: an exam must


def settle(s: Session, lines: Iterable[Evidence], now_us: int) -> Settled:
    """Notes who agreed and sets aside whose output isn't the twin's, each board once.

    The twin runs cases that a campaign asked for: one that a worker made up may be none that can run.
    """
    met = agreement.meetings(s, lines)
    agreement.note(s, met, now_us)
    differing = [one for one in met if one.differing]
    ours = asked_for(s, {one.line.case_id for one in differing}) if differing else set()
    settled = [one for one in differing if one.line.case_id in ours and settles(one.line)]
    aside: dict[str, str] = {}
    for one in settled:
        for slug, reason in _wrong(one):
            if slug not in aside:
                trust.set_aside(s, slug, reason, now_us)
                aside[slug] = reason
    unsettled = {
        board.slug for one in differing if one not in settled for board in (_own(one), *one.differing)
    }
    return Settled(tuple(aside.items()), frozenset(unsettled - set(aside)))


def _own(met: Meeting) -> Board:
    return Board(met.line.device.slug, met.line.output_digest)


def _wrong(met: Meeting) -> list[tuple[str, str]]:
    """The boards whose output isn't the twin's, those included that agree with one another."""
    line, right = met.line, twin_digest(met.line.case)
    boards = dict.fromkeys((_own(met), *met.agreeing, *met.differing))
    return [
        (
            board.slug,
            f"{line.case.op}/{line.case.kernel} put out {board.output_digest[:12]}, {right[:12]} is right",
        )
        for board in boards
        if board.output_digest != right
    ]
