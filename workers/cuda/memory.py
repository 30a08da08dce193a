"""Memory on the board: buffers between guard bands, moved from turn to turn, large inputs kept by content."""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernels.model import Buffer, Plan, Role
from workers.backend import CannotRun
from workers.cuda.driver import Driver

GUARD_BYTES = 4096  # before and behind a buffer: wide enough for a row or two of a matrix
PATTERN = 0xA5  # fills the guard bands
RESIDENT_FROM = 1 << 20  # bytes from which an input stays on the board for the cases that follow
RESIDENT_SHARE = 4  # a resident input may take one in so many of the board's bytes, all of them together
UNUSED_SHARE = 16  # one in so many bytes of the board is left for its context, modules and stacks


@dataclass(frozen=True)
class Span:
    """An allocation: guard band, buffer, guard band."""

    base: int  # address of the band before the buffer
    front: int  # bytes
    nbytes: int
    back: int
    handle: int  # what the allocator frees it by

    @property
    def address(self) -> int:
        return self.base + self.front

    @property
    def whole(self) -> int:
        return self.front + self.nbytes + self.back


class Allocator(Protocol):
    """Where buffers lie: raises CudaError where there is no room."""

    def allocate(self, nbytes: int, front: int, align: int) -> Span:
        """A buffer at a multiple of `align` with a band of `front` bytes, at least, before it."""

    def free(self, span: Span) -> None: ...


class Plain:
    """One plain allocation a buffer: a pool hands back the last case's memory, and hides overruns."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def allocate(self, nbytes: int, front: int, align: int) -> Span:
        base = self._driver.allocate(front + nbytes + GUARD_BYTES)
        return Span(base, front, nbytes, GUARD_BYTES, base)

    def free(self, span: Span) -> None:
        self._driver.free(span.handle)


def front_bytes(align: int, turn: int) -> int:
    """Of a band: others each turn, so that a buffer moves even where its allocation is the last one again.

    From an allocation's 256-byte boundary the buffer then is at an odd multiple of its alignment: a kernel
    that relies on more than its plan says is found out.
    """
    return GUARD_BYTES + align + 2 * align * (turn % 4)


def guarded(image: np.ndarray, span: Span) -> np.ndarray:
    """(n,) uint8: what is uploaded for an image."""
    whole = np.full(span.whole, PATTERN, np.uint8)
    whole[span.front : span.front + span.nbytes] = image
    return whole


def broken(name: str, whole: np.ndarray, span: Span) -> list[str]:
    """One line per guard band that isn't what it was."""
    lines = []
    for place, band in (("before", whole[: span.front]), ("behind", whole[span.front + span.nbytes :])):
        written = np.flatnonzero(band != PATTERN)
        if written.size:
            distance = span.front - written[-1] if place == "before" else written[0] + 1
            lines.append(
                f"buffer {name!r}: {written.size} bytes written {place} it, the nearest {distance} bytes away"
            )
    return lines


class Contents:
    """Digests of images; an image that can't be written is read once, however often it is asked for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[np.ndarray], str]] = {}

    def digest(self, image: np.ndarray) -> str:
        # By identity while the array lives, which the reference tells: an address may be another's by now.
        found = self._known.get(id(image))
        if found and found[0]() is image:
            return found[1]
        digest = hashlib.sha256(np.ascontiguousarray(image).data).hexdigest()
        if not image.flags.writeable:
            self._known = {key: kept for key, kept in self._known.items() if kept[0]() is not None}
            self._known[id(image)] = weakref.ref(image), digest
        return digest


class Residents:
    """Large inputs on the board by content, the least recently used one out first."""

    def __init__(self, allocator: Allocator, limit_bytes: int) -> None:
        self._allocator = allocator
        self._limit_bytes = limit_bytes
        self._contents = Contents()
        self._kept: OrderedDict[str, Span] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(span.whole for span in self._kept.values())

    def key(self, buffer: Buffer, image: np.ndarray) -> str:
        """Empty for what doesn't stay: what is small, written to, or larger than all that may stay."""
        if buffer.role is not Role.IN or not RESIDENT_FROM <= image.nbytes <= self._limit_bytes:
            return ""
        return f"{self._contents.digest(image)} {buffer.align}"

    def get(self, key: str) -> Span | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: str, span: Span) -> None:
        self._kept[key] = span

    def shrink(self, to_bytes: int | None = None, but: Iterable[str] = ()) -> None:
        """Frees the least recently used ones down to so many bytes, or to the limit."""
        limit, needed = self._limit_bytes if to_bytes is None else to_bytes, set(but)
        for key in [key for key in self._kept if key not in needed]:
            if self.nbytes <= limit:
                return
            self._allocator.free(self._kept.pop(key))

    def drop(self, span: Span) -> None:
        """Frees one that is no longer what it was."""
        for key in [key for key, kept in self._kept.items() if kept is span]:
            self._allocator.free(self._kept.pop(key))


def demand_room(plan: Plan, sets: int, driver: Driver, residents: Residents) -> None:
    """CannotRun, with both figures, where so many sets of a plan's buffers don't fit; residents make room."""
    need = sets * sum(buffer.nbytes + 2 * GUARD_BYTES for buffer in plan.buffers)
    free, total = driver.room()
    if need > free - total // UNUSED_SHARE and residents.nbytes:
        residents.shrink(0)
        free, total = driver.room()
    usable = free - total // UNUSED_SHARE
    if need > usable:
        raise CannotRun(
            f"needs {_mib(need)} of device memory, {_mib(max(0, usable))} of the board's {_mib(total)} are "
            f"free; take a smaller shape"
        )


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.1f} MiB"
