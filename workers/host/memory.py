"""Buffers between inaccessible pages, so that a kernel's wild access faults and can be named."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from kernels.model import Buffer
from workers.backend import CannotRun

PAGE_BYTES = mmap.PAGESIZE
GUARD_BYTES = -(-(256 << 10) // PAGE_BYTES) * PAGE_BYTES  # wide enough for an access that is some rows off
ALLOCATED = 256  # what an allocator on a GPU gives multiples of
PATTERN = 0xA5  # fills the slack between a buffer and its pages
PROT_NONE, READ, WRITE = 0, mmap.PROT_READ, mmap.PROT_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class GuardedBuffer:
    """`nbytes` of memory whose end lies flush against inaccessible pages, as far as `alignment` allows."""

    def __init__(self, name: str, nbytes: int, alignment: int = 16) -> None:
        if alignment < 1 or alignment & (alignment - 1) or alignment > PAGE_BYTES:
            raise ValueError(
                f"alignment {alignment} of buffer {name!r} is not a power of two up to {PAGE_BYTES}"
            )
        self.name = name
        self.nbytes = nbytes
        self.read_only = False
        self._open_bytes = max(1, -(-nbytes // PAGE_BYTES)) * PAGE_BYTES
        total = self._open_bytes + 2 * GUARD_BYTES
        try:
            self._map = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise CannotRun(
                f"no memory for the {nbytes} bytes of buffer {name!r}: {error.strerror}"
            ) from error
        whole = np.frombuffer(self._map, np.uint8)
        self._base: int = whole.ctypes.data
        self._open = whole[GUARD_BYTES : GUARD_BYTES + self._open_bytes]
        start = (self._open_bytes - nbytes) // alignment * alignment
        self.address = self._base + GUARD_BYTES + start
        self.view = self._open[start : start + nbytes]  # (nbytes,) uint8
        self._front, self._back = self._open[:start], self._open[start + nbytes :]
        self._front[:], self._back[:] = PATTERN, PATTERN
        self._protect(0, GUARD_BYTES, PROT_NONE)
        self._protect(GUARD_BYTES + self._open_bytes, GUARD_BYTES, PROT_NONE)
        _live.add(self)

    def _protect(self, offset: int, nbytes: int, access: int) -> None:
        if _libc.mprotect(self._base + offset, nbytes, access):
            raise CannotRun(
                f"buffer {self.name!r} can't be guarded: mprotect gave errno {ctypes.get_errno()}"
            )

    def seal(self, read_only: bool = True) -> None:
        """Makes writing to the buffer a fault, or lets it be written again."""
        self._protect(GUARD_BYTES, self._open_bytes, READ if read_only else READ | WRITE)
        self.read_only = read_only

    def broken(self) -> list[str]:
        """One line per guard band that a kernel wrote to; the bands are whole again afterwards."""
        lines = []
        for place, band in (("before", self._front), ("behind", self._back)):
            written = np.flatnonzero(band != PATTERN)
            if written.size:
                distance = len(self._front) - written[-1] if place == "before" else written[0] + 1
                lines.append(f"buffer {self.name!r}: {written.size} bytes written {place} it, "
                             f"the nearest {distance} bytes away")  # fmt: skip
                band[:] = PATTERN
        return lines

    def holds(self, address: int) -> bool:
        """Whether the address lies in the buffer or in its guards."""
        return self._base <= address < self._base + self._open_bytes + 2 * GUARD_BYTES

    def locate(self, address: int) -> str:
        """An address in words, relative to the buffer: '4 bytes past the end of buffer 'x''."""
        if address < self.address:
            return f"{self.address - address} bytes before the start of buffer {self.name!r}"
        past = address - self.address - self.nbytes
        if past >= 0:
            return f"{past} bytes past the end of buffer {self.name!r}"
        return f"{address - self.address} bytes into buffer {self.name!r}"


def alignment(buffer: Buffer, as_allocated: bool) -> int:
    """What a buffer's base is a multiple of: what it needs, so that its end is as near to a page as can be.

    Where a case has an offset from the base, that may be where a GPU's allocator has it, too.
    """
    return max(ALLOCATED, buffer.align) if as_allocated and buffer.offset else buffer.align


_live: weakref.WeakSet[GuardedBuffer] = weakref.WeakSet()


class Arena:
    """The buffers of one run, by name."""

    def __init__(self) -> None:
        self.buffers: dict[str, GuardedBuffer] = {}

    def allocate(self, name: str, nbytes: int, alignment: int = 16) -> GuardedBuffer:
        """A new buffer of zeros; raises CannotRun when there is no memory."""
        self.buffers[name] = GuardedBuffer(name, nbytes, alignment)
        return self.buffers[name]

    def place(self, name: str, data: np.ndarray, alignment: int = 16) -> GuardedBuffer:
        """A new buffer with a copy of the array's bytes."""
        buffer = self.allocate(name, data.nbytes, alignment)
        buffer.view[:] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        return buffer

    def check(self) -> list[str]:
        """One line per broken guard band of any buffer."""
        return [line for buffer in self.buffers.values() for line in buffer.broken()]

    @contextmanager
    def sealed(self, names: Iterable[str]) -> Iterator[None]:
        """While in it, a write to one of the named buffers is a fault."""
        buffers = [self.buffers[name] for name in names]
        try:
            for buffer in buffers:
                buffer.seal()
            yield
        finally:
            for buffer in buffers:
                buffer.seal(False)


def place(address: int) -> str:
    """An address in words, by the guarded buffer it belongs to."""
    for buffer in list(_live):
        if buffer.holds(address):
            return buffer.locate(address)
    return "a null pointer" if address < PAGE_BYTES else "in no buffer"


def describe(address: int, write: bool | None) -> str:
    """What an access to the address did, in words, with the guarded buffer it belongs to; None: not known."""
    doing = "access to" if write is None else "write to" if write else "read of"
    for buffer in list(_live):
        if buffer.holds(address):
            inside = 0 <= address - buffer.address < buffer.nbytes
            if write is not False and buffer.read_only and inside:
                return f"write to read-only buffer {buffer.name!r}, {buffer.locate(address)}"
    return f"wild access ({doing} {address:#x}): {place(address)}"
