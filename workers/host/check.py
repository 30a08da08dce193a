"""What the check build of a text finds wrong as it runs, in words with the lines of the CUDA text."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workers.backend import CannotRun
from workers.host import memory, tls
from workers.host.memory import GuardedBuffer

MOST_FINDINGS = 16
CELL_BYTES = 24  # the first four: when it was written
BEFORE_ALL = 1  # a moment before the first launch: what was filled then is written, and races with nothing
COMPILERS = 255  # owner of a byte that the compiler keeps for itself
MARGIN_BYTES = 4096  # how far from shared memory an address is still told as a distance to it

(OUTSIDE, READ_ONLY, UNWRITTEN, RACE_BLOCK, RACE_WARP, RACE_GRID, MISALIGNED,
 BOUNDS, OBJECT, SHIFT, OVERFLOW, DIVISION, LOCAL, PROMISE, CAST) = range(1, 16)  # fmt: skip

NAMED_LINE = re.compile(r"line (\d+)")  # how the runtime tells where a rule of CUDA was broken

RULES = {
    BOUNDS: "an index outside of its array",
    OBJECT: "an access outside of the array it points into",
    CAST: "a number that doesn't fit the integer it is cast to",
    SHIFT: "a shift by a negative number or by as many bits as there are",
    OVERFLOW: "a signed integer overflows",
    DIVISION: "an integer division by zero, or one that overflows",
}
RACES = {
    RACE_BLOCK: "another thread of the block, with no barrier between",
    RACE_WARP: "another lane of the warp, with neither a barrier nor a __syncwarp between",
    RACE_GRID: "another block of the launch",
}


class _Region(ctypes.Structure):
    """runtime/shadow.h has the same fields, here and below."""

    _fields_ = (
        ("start", ctypes.c_ulonglong),
        ("nbytes", ctypes.c_ulonglong),
        ("words", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("read_only", ctypes.c_int),
    )


class _Finding(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("write", ctypes.c_int),
        ("address", ctypes.c_ulonglong),
        ("size", ctypes.c_uint),
        ("at", ctypes.c_uint),
        ("other_at", ctypes.c_uint),
        ("other_write", ctypes.c_uint),
        ("other_thread", ctypes.c_uint),
        ("thread", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
    )


class _Check(ctypes.Structure):
    _fields_ = (
        ("regions", ctypes.c_void_p),
        ("region_count", ctypes.c_int),
        ("owners", ctypes.c_char_p),
        ("now", ctypes.c_uint),
        ("found", ctypes.c_int),
        ("findings", _Finding * MOST_FINDINGS),
        ("static_shared", ctypes.c_ulonglong),
        ("dynamic_shared", ctypes.c_ulonglong),
    )


@dataclass(frozen=True)
class Watched:
    """A buffer that kernels may touch, and what is remembered of each of its words."""

    buffer: GuardedBuffer
    cells: np.ndarray | None  # None: it is an input, written before all launches and never again


class Text:
    """What is known of a module beside its code: the lines of its places, the variables in shared memory."""

    def __init__(self, path: Path, name: str, files: tuple[str, ...] = ()) -> None:
        self.path = path
        self.name = name  # of the CUDA text's file
        self.files = files or (name,)
        self._known: dict[int, list[str]] = {}
        self.variables, self.shared_bytes = tls.shared_segment(path)
        owners = bytearray(self.shared_bytes + 1)
        for number, one in enumerate(self.variables):
            owner = COMPILERS if one.is_guard else 1 + number % (COMPILERS - 1)
            owners[one.offset : one.offset + one.nbytes] = bytes([owner]) * one.nbytes
        self.owners = bytes(owners)

    def _lines(self, place: int) -> list[str]:
        """Where a place in the code is in the text: its own line first, then those it was inlined at.

        12, or in another of the files that the text is made of vec.cuh:12.
        """
        program = shutil.which("addr2line") or shutil.which("llvm-addr2line")
        if not program:
            return []
        words = [program, "-i", "-e", str(self.path), hex(place)]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        found = [line.split(" (")[0].rpartition(":") for line in answer.splitlines()]
        named = [(self._own(file), line) for file, _, line in found if line.isdigit()]
        return [line if file == self.name else f"{file}:{line}" for file, line in named if file]

    def _own(self, path: str) -> str:
        """Which of the text's files a debugger's path is; empty for one of the runtime's."""
        return next((file for file in self.files if f"/{path}".endswith(f"/{file}")), "")

    def spot(self, place: int) -> str:
        """File and line: k.cu:12."""
        line = self.line(place)
        return line if self._known[place] and ":" in self._known[place][0] else f"{self.name}:{line}"

    def line(self, place: int) -> str:
        """`12`, or `12 (called at line 40)`."""
        if place not in self._known:
            self._known[place] = self._lines(place)
        found = self._known[place]
        if not found:
            return f"unknown (offset {place:#x} of {self.path.name}; install binutils)"
        called = f" (called at line {', '.join(map(str, found[1:]))})" if found[1:] else ""
        return f"{found[0]}{called}"

    def shared(self, offset: int) -> str:
        """An offset into static shared memory in words."""
        before = [one for one in self.variables if one.offset <= offset]
        if not before:
            return f"{-offset} bytes before the start of static shared memory"
        into = offset - before[-1].offset
        name, past = before[-1].plain_name, into - before[-1].nbytes
        if past >= 0:
            return f"{past} bytes past the end of shared array {name!r}"
        return f"{into} bytes into shared array {name!r}"


class Checker:
    """Watches the buffers of one run over all its launches, and collects what is found."""

    def __init__(self) -> None:
        self.watched: list[Watched] = []
        self.findings: list[str] = []
        self._check = _Check(now=BEFORE_ALL)
        self._kept: tuple[object, ...] = ()

    def watch(self, buffer: GuardedBuffer, is_input: bool, is_filled: bool = False) -> None:
        """A buffer that launches may touch; neither input nor filled, it holds nothing until written."""
        cells = None if is_input else self._cells(buffer)
        if cells is not None and is_filled:
            cells[: buffer.nbytes // 4 + 2].view(np.uint32)[:, 0] = BEFORE_ALL
        self.watched.append(Watched(buffer, cells))

    def _cells(self, buffer: GuardedBuffer) -> np.ndarray:
        """Of zeros, which take no memory before they are touched: one a word, then one a byte."""
        try:
            return np.zeros((5 * (buffer.nbytes // 4 + 2), CELL_BYTES), np.uint8)
        except MemoryError:
            raise CannotRun(f"no memory to check the {buffer.nbytes} bytes of {buffer.name!r}") from None

    def begin(self, text: Text, pointers: Sequence[tuple[int, bool]]) -> int:
        """Address of what the runtime is told; a buffer that is passed as const only may not be written."""
        regions = (_Region * len(self.watched))()
        for region, watched in zip(regions, self.watched, strict=True):
            self._describe(region, watched, pointers)
        self._kept = (regions, text.owners)
        self._check.regions = ctypes.addressof(regions)
        self._check.region_count = len(self.watched)
        self._check.owners = text.owners
        self._check.found = 0
        return ctypes.addressof(self._check)

    def _describe(self, region: _Region, watched: Watched, pointers: Sequence[tuple[int, bool]]) -> None:
        start, nbytes = watched.buffer.address, watched.buffer.nbytes
        region.start, region.nbytes = start, nbytes
        given = [is_const for address, is_const in pointers if start <= address < start + nbytes]
        region.read_only = watched.cells is None or (bool(given) and all(given))
        if watched.cells is not None:
            address = watched.cells.ctypes.data
            region.words, region.bytes = address, address + CELL_BYTES * (nbytes // 4 + 2)

    def end(self, text: Text, dynamic_bytes: int, fault: str = "", at: int = 0) -> None:
        """Takes what a launch found; `fault` is what ended it in the runtime's own words, at a place."""
        told = set()
        for found in _kept(self._check.findings[: self._check.found]):
            lines = text.line(found.at), text.line(found.other_at)
            if (found.kind, *lines) not in told:  # one line of the text may be many places in the code
                self.findings.append(f"{text.spot(found.at)}: {self._words(found, text, dynamic_bytes)}")
            told.add((found.kind, *lines))
        if fault:
            named = NAMED_LINE.search(fault)
            spot = text.spot(at) if at else f"{text.name}:{named[1] if named else 'unknown'}"
            self.findings.append(f"{spot}: {fault}")

    def _words(self, found: _Finding, text: Text, dynamic_bytes: int) -> str:
        what = RULES.get(found.kind) or self._access(found, text, dynamic_bytes)
        return f"{what}, thread {_triple(found.thread)} of block {_triple(found.block)}"

    def _access(self, found: _Finding, text: Text, dynamic_bytes: int) -> str:
        doing = f"{'write' if found.write and found.kind != UNWRITTEN else 'read'} of {found.size} bytes"
        where = self._where(found, text, dynamic_bytes)
        if found.kind == MISALIGNED:
            return f"misaligned {doing}, {found.address % found.size} over a multiple of that, {where}"
        if found.kind == PROMISE:
            over = found.address % found.size
            return f"an address promised to be a multiple of {found.size} is {over} over one, {where}"
        if found.kind == UNWRITTEN:
            return f"{doing} that nobody has written, {where}"
        if found.kind in RACES:
            other = "write" if found.other_write else "read"
            line = text.line(found.other_at)
            return f"{doing} races with the {other} at line {line} by {RACES[found.kind]}, {where}"
        if found.kind == LOCAL:
            return f"{doing} in the local memory of another thread"
        return f"{doing} {'of what is const' if found.kind == READ_ONLY else 'out of bounds'}, {where}"

    def _where(self, found: _Finding, text: Text, dynamic_bytes: int) -> str:
        offset = found.address - self._check.static_shared
        if text.variables and -MARGIN_BYTES <= offset < text.shared_bytes + MARGIN_BYTES:
            return text.shared(offset)
        offset = found.address - self._check.dynamic_shared
        if -MARGIN_BYTES <= offset < dynamic_bytes:
            return f"{offset} bytes into dynamic shared memory"
        if dynamic_bytes <= offset < dynamic_bytes + MARGIN_BYTES:
            past = offset - dynamic_bytes
            return f"{past} bytes past the end of the {dynamic_bytes} bytes of dynamic shared memory"
        return memory.place(found.address)


def _kept(findings: Sequence[_Finding]) -> list[_Finding]:
    """All but reads of what nobody has written where a thread that didn't wait wrote it later: a race."""
    raced = {one.other_at for one in findings if one.kind in RACES and not one.other_write}
    return [one for one in findings if one.kind != UNWRITTEN or one.at not in raced]


def _triple(values: Sequence[int]) -> str:
    return f"({values[0]},{values[1]},{values[2]})"
