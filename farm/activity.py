"""What is going on: campaigns with their pace, boards with what they run, and the newest bad cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from db import activity, campaign, device
from db.activity import Ended, Held
from db.campaign import CampaignRow
from db.device import DeviceRow
from db.session import Session
from farm.matrix import Cell, Matrix

MINUTE_US = 60_000_000
WINDOW_US = 5 * MINUTE_US  # over which a pace is taken
SHORTEST_US = 5_000_000  # over less than this a pace is no pace
CLOSED = 5  # newest closed campaigns that are shown beside the open ones


@dataclass(frozen=True)
class CampaignNow:
    """A campaign and how long it will still take."""

    row: CampaignRow
    per_minute: float  # jobs, over the last minutes
    eta_s: float | None  # None where nothing moves, or nothing is left


@dataclass(frozen=True)
class BoardNow:
    """A board and what it does."""

    row: DeviceRow
    running: tuple[Held, ...]  # started, the longest first
    waiting: int  # leased, not started
    per_minute: float
    celsius: float | None  # None where this machine can't tell

    @property
    def is_busy(self) -> bool:
        return bool(self.running or self.waiting or self.per_minute)


@dataclass(frozen=True)
class Activity:
    """Everything that moves, at one moment."""

    now_us: int
    campaigns: tuple[CampaignNow, ...]  # newest first
    older: int  # campaigns that aren't among them
    boards: tuple[BoardNow, ...]  # those at work first


def read_activity(s: Session, now_us: int, celsius: dict[str, float] | None = None) -> Activity:
    """Campaigns that are open and the newest others, and every board; `celsius` by its UUID."""
    rows, older = campaign.newest(s, CLOSED)
    ended = activity.ended(s, now_us - WINDOW_US)
    held: defaultdict[str, list[Held]] = defaultdict(list)
    for one in activity.held(s):
        held[one.device].append(one)
    boards = [
        _board(row, held[row.device.slug], ended, now_us, (celsius or {}).get(row.device.uuid))
        for row in device.devices(s)
    ]
    boards.sort(key=lambda board: not board.is_busy)
    return Activity(now_us, tuple(_campaign(row, ended, now_us) for row in rows), older, tuple(boards))


def campaign_now(s: Session, row: CampaignRow, now_us: int) -> CampaignNow:
    """One campaign with its pace."""
    return _campaign(row, activity.ended(s, now_us - WINDOW_US), now_us)


def _campaign(row: CampaignRow, ended: Iterable[Ended], now_us: int) -> CampaignNow:
    pace = per_minute([one for one in ended if one.campaign_id == row.id], now_us) if row.is_open else 0.0
    left = row.jobs - row.done
    moves = pace > 0 and left > 0 and row.paused_us is None
    return CampaignNow(row, pace, 60 * left / pace if moves else None)


def _board(
    row: DeviceRow, held: Sequence[Held], ended: Iterable[Ended], now_us: int, celsius: float | None
) -> BoardNow:
    running = tuple(one for one in held if one.started_us is not None)
    pace = per_minute([one for one in ended if one.device == row.device.slug], now_us)
    return BoardNow(row, running, len(held) - len(running), pace, celsius)


def per_minute(ended: Sequence[Ended], now_us: int) -> float:
    """Attempts a minute since the first of them within the window."""
    if not ended:
        return 0.0
    first_us = min(one.first_us for one in ended)
    return sum(one.attempts for one in ended) * MINUTE_US / max(now_us - first_us, SHORTEST_US)


def newest_bad(matrix: Matrix, most: int) -> list[Cell]:
    """Cells with a bad verdict, the one that ran last first."""
    bad = [cell for cell in matrix.cells if cell.verdict is not None and cell.verdict.bad]
    return sorted(bad, key=lambda cell: -(cell.last_run_us or 0))[:most]
