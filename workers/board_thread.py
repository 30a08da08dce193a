"""One board's agent as a thread of this process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable

from kernels import catalog
from kernels.errors import FarmError
from kernels.model import Device
from workers.agent import Agent, Summary
from workers.board_lock import BoardLock
from workers.files import FileStore
from workers.machine import boot_id
from workers.protocol import Coordinator, Hello
from workers.slots import slot_maker
from workers.spool import Spool
from workers.state import state_folder


class BoardThread(threading.Thread):
    """Runs an agent to its end and keeps how its life ended."""

    def __init__(
        self, coordinator: Coordinator, device: Device, backends: Iterable[str], *, stays: bool = False
    ) -> None:
        """`stays` keeps the agent waiting for the next campaign when there is nothing to do."""
        super().__init__(name=device.slug)
        self._lock = BoardLock(device)
        try:
            self._spool = Spool(state_folder() / "spool" / f"{device.slug}.jsonl")
        except FarmError:
            self._lock.close()
            raise
        files = FileStore().digests()
        name, digest = str(uuid.uuid4()), catalog.digest()
        hello = Hello(name, device, tuple(backends), digest, files=files, boot=boot_id())
        slot = slot_maker(hello.backends, self._lock)
        self.agent = Agent(coordinator, hello, self._spool, slot, stays=stays)
        self.summary: Summary | None = None  # none until it ended, or where it failed
        self.failure = ""
        # Waited for instead of join(): a join that Ctrl-C interrupts takes a running thread for an ended one
        # (Python 3.11).
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            self.summary = self.agent.run()
        except Exception as error:  # noqa: BLE001 - whatever ended the agent, the main thread says it
            self.failure = str(error) if isinstance(error, FarmError) else f"{type(error).__name__}: {error}"
        else:
            self.failure = self.summary.reason if self.summary.refused else ""
        finally:
            self._leave()

    def _leave(self) -> None:
        """Closes the spool; whatever that comes to, nobody waits for this thread any more."""
        try:
            self._lock.close()
            self._spool.close()
        except OSError as error:  # a full disk: the lines stay in the file as it is
            self.failure = self.failure or f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()
