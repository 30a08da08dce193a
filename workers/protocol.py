"""What workers and the coordinator say to each other: versioned JSON values, whatever carries them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kernels import codec
from kernels.errors import FarmError
from kernels.evidence import Evidence, Rule
from kernels.model import Case, Device

VERSION = 1


class Unreachable(FarmError):
    """Whatever carries the calls found no coordinator at the other end: try again later."""


class StaleEpoch(FarmError):
    """The coordinator has begun a new epoch, or doesn't know this worker: it says hello again and goes on."""


@dataclass(frozen=True)
class Hello:
    """A worker introduces its device."""

    worker_id: str  # UUID of this agent's life
    device: Device
    backends: tuple[str, ...]  # those that run here
    catalog_digest: str  # of every kernel, kind and build the worker's checkout has
    protocol: int = VERSION
    files: tuple[
        str, ...
    ] = ()  # SHA-256 of those that the worker holds: cases that need them come here first
    token_id: int = codec.later(0)  # what it came with, as the gateway says; 0 by another road
    boot: str = codec.later("")  # workers.machine.boot_id of its host; empty where that doesn't tell


@dataclass(frozen=True)
class Welcome:
    """The answer to a hello; a worker that isn't accepted stops and shows the reason."""

    accepted: bool
    reason: str
    epoch: int
    ttl_s: float  # a lease not renewed for this long is taken back


@dataclass(frozen=True)
class Ask:
    """A worker with room asks for work."""

    worker_id: str
    epoch: int
    limit: int


@dataclass(frozen=True)
class Lease:
    """One job held by a worker, and what it needs to run it and to be checked by."""

    attempt_id: str
    job_id: int
    campaign_id: int
    case: Case
    backend: str
    source_digest: str
    inputs_digest: str
    repeats: int
    rule: Rule
    deadline_s: float  # from its start
    pack: str = ""  # address of the user's catalog that the case's kernel is in; empty for the farm's own
    bench: bool = codec.later(False)  # whether it is timed where it passes


@dataclass(frozen=True)
class Leases:
    """Work, or when to ask again; `drained` says that no open campaign has anything left for this device."""

    leases: tuple[Lease, ...]
    retry_after_s: float
    drained: bool


@dataclass(frozen=True)
class Renew:
    """What a worker holds, what it has started since, and what it gives back unstarted."""

    worker_id: str
    epoch: int
    held: tuple[str, ...]  # attempt ids
    started: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Renewed:
    """Attempts that are no longer this worker's: it drops them and goes on."""

    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Complete:
    """Finished attempts, each with its evidence line."""

    worker_id: str
    epoch: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Acknowledged:
    """Evidence ids that are stored for good: their spool lines may go."""

    evidence_ids: tuple[str, ...]


@dataclass(frozen=True)
class Fetch:
    """A worker asks for a user's catalog that a lease named."""

    worker_id: str
    epoch: int
    address: str


@dataclass(frozen=True)
class Fetched:
    """The catalog's content, compressed with zlib, as base64; its SHA-256 is the address once unpacked."""

    content: str


class Coordinator(Protocol):
    """The calls, as an agent sees them; a stale epoch is answered with StaleEpoch."""

    def hello(self, message: Hello) -> Welcome: ...
    def lease(self, message: Ask) -> Leases: ...
    def renew(self, message: Renew) -> Renewed: ...
    def complete(self, message: Complete) -> Acknowledged: ...
    def fetch(self, message: Fetch) -> Fetched: ...
