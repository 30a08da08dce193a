"""A machine's part in somebody else's farm: a node of its Ray, kept there as long as it is wanted."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from farm.cluster import probe, ray_home, ray_ports
from farm.cluster.head import node, own_host
from farm.cluster.probe import Away
from farm.cluster.signals import stopped_by_signals
from kernels.errors import FarmError
from workers.at_work import Marks
from workers.leaving import Clock, Leaving, Limits
from workers.state import state_folder

GLANCE_S = 1.0
SILENT_S = 10.0  # a head that can't be reached for so long is gone
BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Words:
    """What `farm join` was told."""

    address: str  # HOST:PORT of the head
    token: Path
    host: str = ""  # this machine's own address; empty: looked up
    firewalled: bool = False
    minutes: float = 0.0  # end after so long without a head; 0: never
    idle_minutes: float = 0.0  # end when no board here had a case for so long; 0: never


class Member:
    """Joins, and joins again when the head was lost, until stopped or idle for too long."""

    def __init__(self, words: Words, say: Callable[[str], object], clock: Clock = time.monotonic) -> None:
        self._words = words
        self._say = say
        self._stopping = threading.Event()
        self._marks = Marks(state_folder())
        self._clock = clock
        self._leaving = Leaving(Limits(idle=words.idle_minutes), clock)

    def stop(self, *_: object) -> None:
        self._stopping.set()

    def run(self) -> None:
        """FarmError where the head doesn't take this machine in, or isn't there at the first try."""
        host = own_host(self._words.host, self._words.firewalled)
        demand_private(self._words.token)
        probe.admitted(self._words.address, self._words.token)
        with stopped_by_signals(self.stop):
            self._member(host)
            while not self._stopping.is_set():
                self._await_head()
                if not self._stopping.is_set():
                    self._again(host)

    def _again(self, host: str) -> None:
        """One more membership; a Ray that doesn't start this time is no reason to leave the farm."""
        try:
            self._member(host)
        except FarmError as error:
            self._say(f"{error}; tried again")

    def _member(self, host: str) -> None:
        """One membership, to its end."""
        home = state_folder()
        home.mkdir(parents=True, exist_ok=True)
        words = (f"--address={self._words.address}", f"--node-ip-address={host}")
        with (
            ray_home.ray_environment(self._words.token.absolute(), home),
            node(words, home) as process,
        ):
            process.joined()
            ports = ray_ports.told(process.ports())
            self._say(f"joined {self._words.address}; Ray listens on every interface here, ports {ports}")
            seen = time.monotonic()
            while process.alive() and not self._is_over(GLANCE_S):
                if reachable(self._words.address):
                    seen = time.monotonic()
                elif time.monotonic() - seen > SILENT_S:
                    break
        if not self._stopping.is_set():
            self._say(f"the head at {self._words.address} is gone; joins again when it is back")

    def _is_over(self, seconds: float) -> bool:
        """Waits so long; whether it was stopped meanwhile, or nothing was to do for too long."""
        stopped = self._stopping.wait(seconds)
        if not stopped and (why := self._leaving.check(self._marks.are_new())):
            self._say(f"{why}; leaves")
            self._stopping.set()
        return self._stopping.is_set()

    def _await_head(self) -> None:
        """Returns when the head is back; FarmError after too long, or where it now refuses."""
        began, tries = self._clock(), 0
        while not self._is_over(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)]):
            tries += 1
            try:
                probe.admitted(self._words.address, self._words.token)
                return
            except Away as error:
                minutes = (self._clock() - began) / 60
                if self._words.minutes and minutes > self._words.minutes:
                    raise FarmError(
                        f"{error}; for {minutes:.0f} minutes: this machine's work is done"
                    ) from None


def reachable(address: str) -> bool:
    try:
        socket.create_connection(probe.split(address), timeout=2.0).close()
    except OSError:
        return False
    return True


def demand_private(token: Path) -> None:
    """FarmError unless the token's file is there and its owner's alone."""
    try:
        mode = token.stat().st_mode & 0o777
    except OSError as error:
        raise FarmError(f"{token}: {error.strerror}; copy .farm/token from the head, mode 0600") from None
    if mode & 0o077:
        raise FarmError(f"{token} has mode {mode:o} and can be read by others; chmod 600 {token}")
