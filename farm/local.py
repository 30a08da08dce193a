"""Coordinator and agents in this process, without Ray and an open port; cases still run in children."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable, Sequence

from db.campaign import CampaignRow
from db.session import Database
from farm.boards import Board
from farm.coordinator import Coordinator
from farm.interrupt import postponed
from farm.progress import Bar
from kernels import catalog
from kernels.errors import FarmError
from workers.agent import Agent
from workers.isolate import Isolated
from workers.protocol import Hello
from workers.spool import Spool
from workers.state import state_folder

GLANCE_S = 0.1  # how often the bar moves
INTERRUPTED = 130


class BoardThread(threading.Thread):
    """One board's agent, and how its life ended."""

    def __init__(self, coordinator: Coordinator, board: Board) -> None:
        super().__init__(name=board.device.slug)
        self._spool = Spool(state_folder() / "spool" / f"{board.device.slug}.jsonl")
        hello = Hello(str(uuid.uuid4()), board.device, board.backends, catalog.digest())
        self.agent = Agent(coordinator, hello, self._spool, Isolated)
        self.failure = ""
        # Waited for instead of join(): a join that Ctrl-C interrupts takes a running thread for an ended one
        # (Python 3.11).
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            summary = self.agent.run()
        except Exception as error:  # noqa: BLE001 - whatever ended the agent, the main thread says it
            self.failure = str(error) if isinstance(error, FarmError) else f"{type(error).__name__}: {error}"
        else:
            self.failure = summary.reason if summary.refused else ""
        finally:
            self._leave()

    def _leave(self) -> None:
        """Closes the spool; whatever that comes to, nobody waits for this thread any more."""
        try:
            self._spool.close()
        except OSError as error:  # a full disk: the lines stay in the file as it is
            self.failure = self.failure or f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()


def run(database: Database, campaign_id: int, boards: Sequence[Board], bar: Bar) -> CampaignRow:
    """Runs a campaign until it is closed, or until nothing here can go on with it."""
    coordinator = Coordinator(database, catalog.digest())
    threads: list[BoardThread] = []
    try:
        # The agents use the same database: a lock of its pool that this thread keeps for good stops them all.
        with postponed() as step:
            for board in boards:
                threads.append(BoardThread(coordinator, board))
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
