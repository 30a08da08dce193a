"""The matrix as it is now: read once for every change of the database, whoever asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Database, Session
from db.tables import campaign, capability, device, job, pack
from farm.matrix import Column, Matrix
from farm.reader import read_matrix

Version = tuple[object, ...]
FRESH_S = 0.5  # a version younger than this isn't asked for again


@dataclass(frozen=True)
class Held:
    """A matrix, the version of the rows it was made of, and its columns by place."""

    version: Version
    matrix: Matrix
    columns: dict[tuple[str, str | None, str], Column]


class Holder:
    """Reads the matrix again when evidence came in; pages that ask meanwhile get the same one."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._asked_s = -FRESH_S

    def now(self) -> Held:
        with self._lock:
            if self._held is not None and self._clock() - self._asked_s < FRESH_S:
                return self._held
            with self._database.reading() as s:
                version = version_of(s)
                if self._held is None or self._held.version != version:
                    matrix = read_matrix(s, time.time_ns() // 1000)
                    self._held = Held(version, matrix, columns_of(matrix))
            self._asked_s = self._clock()
            return self._held


def columns_of(matrix: Matrix) -> dict[tuple[str, str | None, str], Column]:
    """Columns by (device class, device or None, backend), as cells name them."""
    return {(one.device_class, one.device or None, one.backend): one for one in matrix.columns}


def version_of(s: Session) -> Version:
    """Differs after every change that a matrix shows: cells, devices, catalogs."""
    cells = s.execute(
        sa.select(
            sa.func.count(),
            sa.func.max(capability.c.last_run_us),
            sa.func.sum(capability.c.cases),
            sa.func.sum(capability.c.positions),
        )
    ).one()
    boards = s.execute(sa.select(sa.func.count(), sa.func.max(device.c.last_seen_us))).one()
    catalogs = s.execute(sa.select(sa.func.count(), sa.func.max(pack.c.stored_us))).one()
    return (*cells, *boards, *catalogs)


def activity_of(s: Session) -> Version:
    """Differs after every step of a campaign."""
    open_jobs = sa.select(job.c.state, sa.func.count()).join(campaign, campaign.c.id == job.c.campaign_id)
    open_jobs = open_jobs.where(campaign.c.closed_us.is_(None)).group_by(job.c.state).order_by(job.c.state)
    newest = sa.select(sa.func.max(campaign.c.id), sa.func.count(campaign.c.closed_us))
    return (*map(tuple, s.execute(open_jobs).all()), *s.execute(newest).one())
