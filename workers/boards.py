"""What this machine can run cases on: its devices, each with the backends that work here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernels.errors import FarmError
from kernels.model import Device
from workers import backend as backends
from workers.backend import Unavailable

GPU_UUIDS = ("GPU-", "MIG-")  # as NVIDIA's tools write them
DEFAULT_BACKENDS = ("host", "cuda")  # where they are available; the others run when named


@dataclass(frozen=True)
class Board:
    """A device of this machine, and what runs on it."""

    device: Device
    backends: tuple[str, ...]

    @property
    def compiles_only(self) -> bool:
        """Whether nothing runs there: an architecture, not a board."""
        return not any(executes(name) for name in self.backends)


@dataclass(frozen=True)
class Survey:
    """What was found, and one line for every backend that isn't available."""

    boards: tuple[Board, ...]
    unavailable: tuple[str, ...]


@dataclass(frozen=True)
class NodeSurvey:
    """What a node of Ray says of itself, for its agents' hellos."""

    boards: tuple[Board, ...]
    catalog_digest: str  # of the node's own checkout
    files: tuple[str, ...]  # SHA-256 of those that the node holds
    boot: str = ""  # workers.machine.boot_id of the node


def wanted_backends(named: Iterable[str]) -> tuple[str, ...]:
    """The backends that were named, or the default ones that this catalog has; unknown names are refused."""
    chosen = tuple(dict.fromkeys(named))
    if not chosen:
        return tuple(name for name in DEFAULT_BACKENDS if name in backends.names())
    for name in chosen:
        backends.backend(name)
    return chosen


def executes(name: str) -> bool:
    """False for a backend that compiles only."""
    return backends.executes(backends.backend(name))


def waves(boards: Iterable[Board]) -> list[tuple[Board, ...]]:
    """Boards that run at the same time; architectures one by one, since each takes the whole processor."""
    boards = tuple(boards)
    together = tuple(board for board in boards if not board.compiles_only)
    return [*([together] if together else []), *((board,) for board in boards if board.compiles_only)]


def survey(names: Iterable[str]) -> Survey:
    """Asks every named backend for its devices."""
    found: dict[Device, list[str]] = {}
    reasons = []
    for name in names:
        try:
            devices = backends.backend(name).devices()
        except Unavailable as error:
            because = f"{name} is unavailable because "  # some backends say so themselves
            reasons.append(because + str(error).removeprefix(because))
            continue
        for device in devices:
            found.setdefault(device, []).append(name)
    return Survey(tuple(Board(device, tuple(names)) for device, names in found.items()), tuple(reasons))


def resource(device: Device) -> str:
    """What Ray calls a GPU's board: one of it a board, so that no two actors take the same; empty for others.

    Boards are no GPUs to Ray, which would write CUDA_VISIBLE_DEVICES for whoever asks for those.
    """
    return f"board:{device.uuid}" if device.uuid.startswith(GPU_UUIDS) else ""


def resources(devices: Iterable[Device]) -> dict[str, float]:
    """The boards among these as a node of Ray declares them."""
    return {name: 1.0 for device in devices if (name := resource(device))}


def gpus() -> tuple[Device, ...]:
    """This machine's GPUs that can be used; none, without a word, where there are none."""
    return tuple(board.device for board in survey(("cuda",)).boards)


def matches(device: Device, pattern: str) -> bool:
    """Whether a glob names the device by class, board name, slug or UUID, in any case of letters."""
    words = (device.device_class, device.name, device.slug, device.uuid)
    return any(fnmatchcase(word.lower(), pattern.lower()) for word in words)


def matching(found: Survey, pattern: str) -> tuple[Board, ...]:
    """The boards that `--device` names; FarmError says what there is where none does."""
    chosen = tuple(board for board in found.boards if matches(board.device, pattern))
    if chosen:
        return chosen
    if not found.boards:
        raise FarmError(f"nothing here can run a case: {'; '.join(found.unavailable) or 'no backend'}")
    there = ", ".join(f"{board.device.device_class} ({board.device.name})" for board in found.boards)
    raise FarmError(f"no device here matches {pattern!r}; there are {there}")
