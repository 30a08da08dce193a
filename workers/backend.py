"""The contract between a plan and whatever executes it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np

import workers.backends
from kernels import dtypes
from kernels.built import BuildRecord
from kernels.errors import FarmError, UnknownName
from kernels.evidence import LaunchRecord
from kernels.model import Buffer, Build, Device, Options, Plan
from workers.sim import plan as simulation

NO_OPTIONS = Options()  # a kernel that asks its compiler for nothing


class Unavailable(FarmError):
    """This backend can't run on this machine; the message says why and what to install."""


class Rejected(FarmError):
    """The compiler or loader refused the text for this device (REJECT); the message is its own first line."""


class KernelFault(FarmError):
    """The kernel did something fatal that was caught (CRASH): a wild access, abort, divergent barrier.

    A backend that tells its line in an instrumented build gives a finding of the run instead.
    """


class Overrun(FarmError):
    """The driver ended the kernel at a deadline of its own (TIMEOUT): the watchdog of a display."""


class BoardFault(FarmError):
    """Board, driver or farm is at fault (ERROR); with `sticky` this process can't use the board any more."""

    def __init__(self, message: str, sticky: bool = True) -> None:
        super().__init__(message)
        self.sticky = sticky


class CannotRun(FarmError):
    """A typed refusal of this case on this device (SKIP): not enough memory, a limit of the board."""


@dataclass(frozen=True)
class Run:
    """What one execution of a plan gave."""

    images: Mapping[str, np.ndarray]  # buffer name -> (nbytes,) uint8 after the run: every buffer of the plan
    launches: tuple[LaunchRecord, ...]
    guards: tuple[str, ...]  # one line per broken guard band: which buffer, before or behind it
    compiler: str
    flags: str
    compile_us: float = 0.0
    substitutes: tuple[str, ...] = ()  # intrinsics that ran as their host twin
    builds: tuple[BuildRecord, ...] = ()  # one per text, from a compiler that says what it made
    # expf and rsqrtf were the device's own: bits may differ from the twin's by their stated error.
    approximate: bool = False
    # What an instrumented build saw go wrong, each with its line of the CUDA text: any of them is FAIL. The
    # images are then those of a run that may have been stopped.
    findings: tuple[str, ...] = ()


class Backend(Protocol):
    """Three calls; a file in workers/backends with a constant BACKEND is a backend."""

    name: str
    # Execution orders it has; a run in the exact build takes each of them at least once. With 0 it compiles
    # and executes nothing: run() is given no images and returns none, and PASS means that it was built.
    orders: int

    def devices(self) -> tuple[Device, ...]:
        """The devices of this machine; raises Unavailable with the reason."""

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        """Executes the plan once. `images` has every IN and INOUT buffer; the others are filled first.

        `turn` counts the repeats of a case: a backend that can, uses another execution order at odd turns.
        Raises Rejected, KernelFault, Overrun, CannotRun, BoardFault or Unavailable.
        """


@runtime_checkable
class Toolchain(Protocol):
    """What a backend that compiles offers beside, so that a rejected or crashed case says what built it."""

    def toolchain(self, build: Build, options: Options = NO_OPTIONS) -> tuple[str, str]:
        """Compiler and flags, as Run has them; raises Unavailable."""


@runtime_checkable
class Prepares(Protocol):
    """What a backend that opens a board and loads code offers beside: neither is the kernel's doing."""

    def open(self, device: Device) -> None:
        """Has the board ready; raises what Backend.run raises."""

    def prepare(self, plan: Plan, device: Device) -> None:
        """Has the plan's code compiled and loaded; raises what Backend.run raises."""


def executes(backend: Backend) -> bool:
    """False for a backend that compiles only."""
    return backend.orders > 0


POISONS = (0x7FC0DEAD, 0xFFC1BEEF, 0x7FC2F00D)  # float32 NaNs with a payload no kernel makes, one a turn


def poisoned(nbytes: int, turn: int, dtype: str = "f4") -> np.ndarray:
    """A (nbytes,) uint8 image filled with the turn's poison: an element nobody writes gives itself away.

    Bytes do so by differing between turns: those of turn 0 and turn 1 are equal at no offset.
    """
    word, of = POISONS[turn % len(POISONS)], dtypes.dtype(dtype)
    element = dtypes.poison(word, of)
    size = 4 if element is None else of.itemsize
    words = np.full(-(-nbytes // size), word if element is None else element, f"<u{size}")
    return words.view(np.uint8)[:nbytes]


def filled(buffer: Buffer, turn: int) -> np.ndarray:
    """The (nbytes,) uint8 image of an OUT or SCRATCH buffer before a run: its fill, or poison."""
    image = poisoned(buffer.nbytes, turn, buffer.dtype)
    if buffer.fill is not None:
        view = buffer.view(image)
        view[...] = dtypes.rounded(np.array(buffer.fill, np.float32), view.dtype)
    return image


@cache
def _modules(folders: tuple[str, ...]) -> frozenset[str]:
    """What the folders hold; every case asks for a backend."""
    return frozenset(module.name for module in pkgutil.iter_modules(folders))


def names() -> list[str]:
    """Every backend's name, whether or not it can run here; the simulated one where faults are planned."""
    found = _modules(tuple(workers.backends.__path__))
    hidden = set() if simulation.is_planned() else {simulation.BACKEND}
    return sorted(name for name in found - hidden if not name.startswith("_"))


def backend(name: str) -> Backend:
    """The backend of that name; its vendor imports happen in devices() and run(), not here."""
    if name not in names():
        raise UnknownName("backend", name, names())
    found: Backend = importlib.import_module(f"workers.backends.{name}").BACKEND
    return found
