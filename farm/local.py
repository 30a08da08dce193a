"""Coordinator and agents in this process, without Ray and an open port; cases still run in children."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from db.campaign import CampaignRow
from db.session import Database
from farm.coordinator import Coordinator
from farm.interrupt import postponed
from farm.progress import Bar
from kernels import catalog
from kernels.errors import FarmError
from workers.board_thread import BoardThread
from workers.boards import Board

GLANCE_S = 0.1  # how often the bar moves
INTERRUPTED = 130


def run(database: Database, campaign_id: int, boards: Sequence[Board], bar: Bar) -> CampaignRow:
    """Runs a campaign until it is closed, or until nothing here can go on with it."""
    coordinator = Coordinator(database, catalog.digest())
    threads: list[BoardThread] = []
    try:
        # The agents use the same database: a lock of its pool that this thread keeps for good stops them all.
        with postponed() as step:
            for board in boards:
                threads.append(BoardThread(coordinator, board.device, board.backends))
                threads[-1].start()
            return _watch(coordinator, campaign_id, threads, bar, step)
    finally:
        _stop([thread for thread in threads if thread.ident], bar)
        coordinator.close()


def _watch(
    coordinator: Coordinator,
    campaign_id: int,
    threads: Sequence[BoardThread],
    bar: Bar,
    step: Callable[[], None],
) -> CampaignRow:
    while True:
        step()
        working = [thread for thread in threads if not thread.ended.is_set()]
        row = coordinator.progress(campaign_id)
        bar.show(row)
        if failures := [f"{thread.name}: {thread.failure}" for thread in threads if thread.failure]:
            raise FarmError(f"{'; '.join(failures)}; farm resume {campaign_id} continues")
        if not row.is_open or not working:
            return row
        working[0].ended.wait(GLANCE_S)


def _stop(threads: Sequence[BoardThread], bar: Bar) -> None:
    """Lets the running cases end; whoever can't wait for them interrupts once more."""
    try:
        for thread in threads:
            thread.agent.stop()
        for thread in threads:
            thread.ended.wait()
    except KeyboardInterrupt:
        bar.note("farm: ended at once; what was running will run again")
        sys.stderr.flush()
        os._exit(
            INTERRUPTED
        )  # threads that wait for a child can't be ended otherwise; the children end with us
