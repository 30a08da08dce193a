"""What one token's bearer may do: the four calls for its own devices, and nothing in anybody else's name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sized
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from db.token import TokenRow
from farm.coordinator import TTL_S
from farm.roll import SILENT
from farm.wire import misfit
from kernels import codec
from kernels.errors import FarmError
from kernels.evidence import Evidence
from kernels.model import Device
from workers.protocol import Ask, Complete, Hello, Renew, StaleEpoch

TRUST = "rented"
MOST_LEASES = 64  # in one answer
# In one message. A statement takes 32,766 values, and 64 workers' lines may share a transaction.
MOST_NAMES = 4096  # attempts, or files
MOST_BACKENDS = 64
MOST_LINES = 256
MOST_HELLO = 512 << 10  # bytes of a hello, which is kept as long as its worker is known
MOST_WORKERS = 256  # of one token, known at a time
SILENT_S = SILENT * TTL_S  # after which a worker is forgotten


class OutOfScope(FarmError):
    """The token isn't for this device, or this worker isn't the token's."""


class TooOften(FarmError):
    """More calls than the token's rate allows; the client waits and asks again."""


@dataclass
class Bucket:
    """Calls that a token has left: `rate_s` more each second, at most `burst`."""

    rate_s: float
    burst: float
    left: float
    at_s: float

    def take(self, now_s: float) -> bool:
        self.left = min(self.burst, self.left + (now_s - self.at_s) * self.rate_s)
        self.at_s = now_s
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass
class Speaker:
    """A worker as it said hello."""

    token_id: int
    slug: str  # of its board
    heard_s: float  # when it called last


@dataclass
class Ledger:
    """What the gateway remembers between calls: whose worker is whose, and how many calls are left."""

    clock: Callable[[], float]
    rate_s: float = 50.0
    burst: float = 200.0
    speakers: dict[str, Speaker] = field(default_factory=dict)  # by worker id
    buckets: dict[int, Bucket] = field(default_factory=dict)  # by token id
    lock: threading.Lock = field(default_factory=threading.Lock)

    def charge(self, token_id: int) -> None:
        """Counts a call; TooOften where the token has none left."""
        with self.lock:
            now = self.clock()
            bucket = self.buckets.setdefault(token_id, Bucket(self.rate_s, self.burst, self.burst, now))
            if not bucket.take(now):
                raise TooOften(f"more than {self.rate_s:g} calls a second; wait and ask again")

    def claim(self, worker_id: str, slug: str, token_id: int) -> None:
        """Makes a worker the token's; OutOfScope where it is another's, or one too many."""
        with self.lock:
            now = self.clock()
            self._forget_silent(now)
            self._refuse_other(worker_id, token_id)
            if (mine := self.speakers.get(worker_id)) and mine.slug != slug:
                raise OutOfScope(
                    f"worker {worker_id} speaks for {mine.slug}; {slug} needs a worker with an id of its own"
                )
            known = sum(one.token_id == token_id for one in self.speakers.values())
            if worker_id not in self.speakers and known >= MOST_WORKERS:
                raise OutOfScope(
                    f"{known} workers speak with this token, and that is the most; "
                    f"end some and wait {SILENT_S:g} s, or farm token new makes another token"
                )
            self.speakers[worker_id] = Speaker(token_id, slug, now)

    def forget(self, worker_id: str) -> None:
        """A worker that wasn't taken in is none of the token's."""
        with self.lock:
            self.speakers.pop(worker_id, None)

    def demand(self, worker_id: str, token_id: int) -> str:
        """The slug of a worker's board; StaleEpoch where it hasn't said hello here, as after a restart."""
        with self.lock:
            if worker_id not in self.speakers:
                raise StaleEpoch("this gateway doesn't know the worker; say hello")
            self._refuse_other(worker_id, token_id)
            speaker = self.speakers[worker_id]
            speaker.heard_s = self.clock()
            return speaker.slug

    def _forget_silent(self, now_s: float) -> None:
        silent = [name for name, one in self.speakers.items() if one.heard_s < now_s - SILENT_S]
        for name in silent:
            del self.speakers[name]

    def _refuse_other(self, worker_id: str, token_id: int) -> None:
        speaker = self.speakers.get(worker_id)
        if speaker and speaker.token_id != token_id:
            raise OutOfScope("this worker id belongs to another token")


class Guarded:
    """What the bearer of one token may say; its evidence is marked rented."""

    def __init__(self, token: TokenRow, ledger: Ledger) -> None:
        self._token = token
        self._ledger = ledger

    def checked(self, message: Any) -> Any:
        """A message of workers.protocol as the coordinator is to have it; FarmError where it may not."""
        match message:
            case Hello():
                return self._hello(message)
            case Ask():
                self._ledger.demand(message.worker_id, self._token.id)
                return replace(message, limit=max(0, min(message.limit, MOST_LEASES)))
            case Renew():
                self._ledger.demand(message.worker_id, self._token.id)
                for names in (message.held, message.started, message.returned):
                    _refuse_many(names, "attempts", MOST_NAMES)
                return message
            case Complete():
                return self._complete(message)
        self._ledger.demand(message.worker_id, self._token.id)
        return message

    def _hello(self, message: Hello) -> Hello:
        _refuse_many(message.backends, "backends", MOST_BACKENDS)
        _refuse_many(message.files, "files", MOST_NAMES)
        if reason := misfit(message):  # before the ledger remembers a name of any length
            raise FarmError(reason)
        if (length := len(codec.canonical(message))) > MOST_HELLO:
            raise FarmError(f"a hello of {length} bytes, {MOST_HELLO} are the most; hold fewer files")
        self._demand_device(message.device)
        self._ledger.claim(message.worker_id, message.device.slug, self._token.id)
        return replace(message, token_id=self._token.id)

    def _complete(self, message: Complete) -> Complete:
        slug = self._ledger.demand(message.worker_id, self._token.id)
        _refuse_many(message.evidence, "lines", MOST_LINES)
        for line in message.evidence:
            self._demand_device(line.device)
            if line.device.slug != slug:
                raise OutOfScope(f"a line about {line.device.slug} from a worker that speaks for {slug}")
        return replace(message, evidence=tuple(map(marked, message.evidence)))

    def _demand_device(self, device: Device) -> None:
        if not covers(self._token.devices, device):
            raise OutOfScope(
                f"device {device.slug} ({device.device_class}) isn't covered by this token, "
                f"which is for {self._token.devices}"
            )
        # Else a token for one class would let a worker file its lines under any other.
        if device.device_class not in (device.slug, device.slug.rpartition("-")[0]):
            raise OutOfScope(
                f"device {device.slug} isn't named for its class, {device.device_class}: "
                "a slug is the class, - and a piece of the UUID"
            )


def covers(pattern: str, device: Device) -> bool:
    """Whether a token's glob names a device by class, slug or UUID; its name is whatever its worker says."""
    words = (device.device_class, device.slug, device.uuid)
    return any(fnmatchcase(word.lower(), pattern.lower()) for word in words)


def _refuse_many(items: Sized, noun: str, most: int) -> None:
    if len(items) > most:
        raise FarmError(f"{len(items)} {noun} in one message, {most} are the most; send fewer at once")


def marked(line: Evidence) -> Evidence:
    """A line as the farm stores it, whatever it said about its own origin."""
    return replace(line, origin="worker", trust=TRUST)
