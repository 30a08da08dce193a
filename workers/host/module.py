"""Loads a built CUDA text and launches its kernels on the CPU."""

from __future__ import annotations

import _ctypes
import ctypes
import math
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workers.backend import BoardFault, CannotRun, KernelFault, Rejected
from workers.host import abi, memory, tls
from workers.host.check import Checker, Text
from workers.host.memory import GuardedBuffer

STOPPED = 3  # kind of a report: the findings say it all
MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_SHARED_BYTES = 48 << 10
MAX_WORKERS = 64

INTEGERS = {"bool": (1, False), "i8": (1, True), "u8": (1, False), "i16": (2, True), "u16": (2, False),
            "i32": (4, True), "u32": (4, False), "i64": (8, True), "u64": (8, False)}  # fmt: skip
FLOATS = {"f32": "<f", "f64": "<d"}

Argument = GuardedBuffer | int | float | np.integer[Any] | np.floating[Any]
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Parameter:
    """One argument's type as the compiler deduced it."""

    name: str  # f32, i32, u8, float4, …; of a pointer: what it points to
    pointer: int = 0  # levels of indirection
    is_const: bool = False  # of a pointer: whether what it points to may not be written

    def __str__(self) -> str:
        return ("const " if self.is_const else "") + self.name + "*" * self.pointer


@dataclass(frozen=True)
class Entry:
    """One __global__ function of a module."""

    name: str
    parameters: tuple[Parameter, ...]
    static_shared_bytes: int
    call: int  # address of the launch glue

    @property
    def signature(self) -> str:
        """`name(const u8*, f32*, i32)`."""
        return f"{self.name}({', '.join(map(str, self.parameters))})"


@dataclass(frozen=True)
class Launch:
    """A launch as it happened."""

    entry: str
    grid: Size
    block: Size
    static_shared_bytes: int
    dynamic_shared_bytes: int
    elapsed_us: float  # the kernel alone, without loading or checking


# The pool of stacks and the signal handlers belong to the process, so launches take turns.
_turn = threading.Lock()
_pool: int | None = None


def demand_executable(folder: Path) -> None:
    """BoardFault where the system executes nothing of a folder, whatever a text is like."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise BoardFault(
            f"{folder} is on a file system mounted noexec, from which no kernel can be loaded; "
            "set FARM_STATE to a folder elsewhere",
            sticky=False,
        )


class Module:
    """A loaded text. Every module has a runtime of its own, and nothing in it is visible to another."""

    def __init__(self, path: Path, name: str = "", files: tuple[str, ...] = ()) -> None:
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            demand_executable(path.parent)
            raise Rejected(f"the loader refuses {path.name}: {error}") from error
        self.path = path
        self.name = name  # of the text's file, as it was built
        self.files = files  # that the text is made of, where they are several
        self._library.farm_pool.restype = ctypes.c_void_p
        self.entries: dict[str, Entry] = {}
        sizes = tls.sizes(path)
        kernel = ctypes.pointer(abi.Kernel.in_dll(self._library, "farm_kernels"))
        i = 0
        while kernel[i].name:
            name = kernel[i].name.decode()
            types = kernel[i].types[: kernel[i].count]
            parameters = tuple(Parameter(t.name.decode(), t.pointer, bool(t.is_const)) for t in types)
            self.entries[name] = Entry(name, parameters, tls.shared_bytes(sizes, name), kernel[i].call)
            i += 1

    def close(self) -> None:
        """Unloads the text; its entries can't be launched any more."""
        _ctypes.dlclose(self._library._handle)
        self.entries = {}

    def launch(
        self,
        entry: str,
        grid: Size,
        block: Size,
        shared_bytes: int,
        args: Sequence[Argument],
        order: int = 0,
        workers: int = 1,
        checker: Checker | None = None,
    ) -> Launch:
        """Runs a kernel to its end, with the interpreter's lock released.

        Order 0 takes lanes, warps and blocks ascending, 1 descending. Raises Rejected when the launch is
        against the rules or the arguments don't fit, KernelFault when the kernel breaks a rule as it runs.
        With a checker, for a text of the check build, that rule and all others become its findings.
        """
        if entry not in self.entries:
            raise Rejected(f"no entry named {entry!r}; there are {', '.join(self.entries)}")
        chosen = self.entries[entry]
        check_size(chosen, grid, block, shared_bytes)
        slots = pack(chosen, args)
        request = abi.Launch(
            call=chosen.call,
            slots=ctypes.cast(slots, ctypes.c_void_p),
            grid=grid,
            block=block,
            dynamic_bytes=shared_bytes,
            descending=order,
            workers=1 if checker else max(1, min(workers, grid[0] * grid[1] * grid[2], MAX_WORKERS)),
        )
        if checker:
            request.check = checker.begin(self.text, pointers(chosen, slots))
        self._run(request)
        if checker:
            checker.end(self.text, shared_bytes, _reason(request.report), request.report.at)
        elif request.failed:
            raise KernelFault(_reason(request.report))
        return Launch(entry, grid, block, chosen.static_shared_bytes, shared_bytes, request.elapsed_us)

    def _run(self, request: abi.Launch) -> None:
        with _turn:
            request.pool = self._shared_pool()
            refused = self._library.farm_launch(ctypes.byref(request))
        if refused:
            raise CannotRun(f"no memory for the stacks of {math.prod(request.block)} threads")

    @cached_property
    def text(self) -> Text:
        """What a checker makes lines and names of."""
        return Text(self.path, self.name, self.files)

    def _shared_pool(self) -> int:
        global _pool
        if _pool is None:
            _pool = self._library.farm_pool()
        assert _pool is not None
        return _pool


def check_size(entry: Entry, grid: Size, block: Size, shared_bytes: int) -> None:
    """Refuses what no GPU launches: each limit with what was asked for."""
    for noun, size, most in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        if any(not 1 <= n <= m for n, m in zip(size, most, strict=True)):
            raise Rejected(f"{entry.name}: {noun} {size} is not between (1, 1, 1) and {most}")
    if (threads := block[0] * block[1] * block[2]) > MAX_THREADS:
        raise Rejected(f"{entry.name}: block {block} has {threads} threads, the most is {MAX_THREADS}")
    static = entry.static_shared_bytes
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES - static:
        raise Rejected(
            f"{entry.name}: {static} static and {shared_bytes} dynamic bytes of shared memory, "
            f"the most is {MAX_SHARED_BYTES}"
        )


def pack(entry: Entry, args: Sequence[Argument]) -> ctypes.Array[ctypes.c_char]:
    """The arguments as 8-byte slots; raises Rejected when number, type or range differ from the signature."""
    if len(args) != len(entry.parameters):
        raise Rejected(f"{entry.signature} takes {len(entry.parameters)} arguments, got {len(args)}")
    words = []
    for i, (value, parameter) in enumerate(zip(args, entry.parameters, strict=True)):
        word = _word(value, parameter)
        if word is None:
            got = f"{type(value).__name__} {getattr(value, 'name', value)}"
            raise Rejected(f"argument {i} of {entry.signature}: got {got}, want {parameter}")
        words.append(word.ljust(8, b"\0"))
    return ctypes.create_string_buffer(b"".join(words), 8 * max(1, len(words)))


def pointers(entry: Entry, slots: ctypes.Array[ctypes.c_char]) -> list[tuple[int, bool]]:
    """The addresses that a kernel is given, and whether each only to read from."""
    words = struct.unpack(f"<{len(entry.parameters)}Q", slots.raw[: 8 * len(entry.parameters)])
    given = zip(words, entry.parameters, strict=True)
    return [(word, parameter.is_const) for word, parameter in given if parameter.pointer]


def _word(value: Argument, parameter: Parameter) -> bytes | None:
    """The bytes of a value that fits its parameter, else None."""
    if parameter.pointer:
        if isinstance(value, GuardedBuffer):
            return struct.pack("<Q", value.address)
        fits = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < 2**64
        return struct.pack("<Q", int(value)) if fits else None
    if isinstance(value, (int, np.integer)) and parameter.name in INTEGERS:
        nbytes, signed = INTEGERS[parameter.name]
        try:
            return int(value).to_bytes(nbytes, "little", signed=signed)
        except OverflowError:
            return None
    if isinstance(value, (float, np.floating)) and parameter.name in FLOATS:
        return struct.pack(FLOATS[parameter.name], value)
    return None


def _reason(report: abi.Report) -> str:
    if report.kind == STOPPED:
        return ""
    text: str = report.text.decode(errors="replace")
    if report.kind == 1:
        return memory.describe(report.address, {0: False, 1: True}.get(report.write)) + text
    return text
