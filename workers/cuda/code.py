"""What is loaded on a board: a launch's text as cubin or PTX, a file by its content, and what was built."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from kernels import registry
from kernels.built import BuildRecord
from kernels.model import Launch
from workers.backends import nvrtc as building
from workers.cuda.arch import Target
from workers.cuda.driver import Driver
from workers.nvrtc import cubin
from workers.nvrtc.library import Compiled, Nvrtc
from workers.nvrtc.sass import Reading
from workers.nvrtc.store import Store
from workers.state import compile_cache

LOADED_AT_MOST = 512  # modules; then all are let go, and those that are needed come back from their files
FRESH = re.compile(r"fresh-(\d+)-\d+\.\w+")  # a process's own copy of a file
UNREAD = "not disassembled on the machine that ran it"
# Memory of a module's own that a kernel can write and find again: in a cubin, and in PTX.
STATE = ".nv.global"
PTX_STATE = re.compile(rb"^\s*(\.visible\s+|\.weak\s+)?\.global\b", re.M)


@dataclass(frozen=True)
class Code:
    """One launch's text, compiled."""

    path: Path
    symbol: str  # of the entry
    digest: str  # SHA-256 of the file
    keeps_state: bool  # has device variables, which outlive a launch
    record: BuildRecord | None  # none for PTX, whose registers the driver chooses


def has_state(code: bytes) -> bool:
    """Whether a module has global memory of its own; constant tables there count, a reload costs little."""
    if not code.startswith(b"\x7fELF"):
        return PTX_STATE.search(code) is not None
    return any(one.name.startswith(STATE) and one.size for one in cubin.sections(code))


def compiled(
    launch: Launch,
    found: Nvrtc,
    target: Target,
    flags: tuple[str, ...],
    compile_text: building.CompileText,
) -> Code:
    """The code of a launch's text; compiling happens once per content, on disk. Raises Rejected.

    A catalog's cubin is taken as it is.
    """
    if content := built(launch):
        return _as_it_is(content, launch.entry)
    path, made = building.compiled(launch, found, flags, compile_text)
    record = None if target.is_ptx else building.record(launch, target.arch, made, Reading(None), UNREAD)
    return Code(
        path,
        made.lowered or launch.entry,
        hashlib.sha256(made.cubin).hexdigest(),
        has_state(made.cubin),
        record,
    )


def built(launch: Launch) -> bytes:
    """The cubin that a launch names in place of a text; empty for a text."""
    own = registry.self_contained(launch.kernel)
    return own.built(launch.unit) if own and launch.unit else b""


def _as_it_is(content: bytes, symbol: str) -> Code:
    digest = hashlib.sha256(content).hexdigest()
    store = Store(compile_cache() / "nvrtc")
    store.compiled(digest, lambda: Compiled(content, ""))
    return Code(store.code(digest), symbol, digest, has_state(content), None)


def sweep(folder: Path) -> None:
    """Removes the copies of processes that were killed before they could."""
    for path in folder.glob("fresh-*"):
        owner = FRESH.fullmatch(path.name)
        if owner and not _is_alive(int(owner[1])):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


@dataclass
class Modules:
    """Entries by file and symbol, a module loaded once; one that keeps state anew for each case."""

    driver: Driver
    _entries: dict[tuple[Path, str], Any] = field(default_factory=dict)
    _fresh: dict[str, Path] = field(default_factory=dict)  # digest -> this case's own copy of the file
    _loads: int = 0
    _serial: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        sweep(compile_cache() / "nvrtc")

    def begin_case(self) -> None:
        """What keeps state is loaded again from here on."""
        for path in self._fresh.values():
            path.unlink(missing_ok=True)
            for key in [key for key in self._entries if key[0] == path]:
                del self._entries[key]
        self._fresh.clear()
        if self._loads >= LOADED_AT_MOST:
            self._entries.clear()
            self.driver.forget()
            self._loads = 0

    def entry(self, code: Code) -> Any:
        path = self._own(code) if code.keeps_state else code.path
        key = path, code.symbol
        if key not in self._entries:
            self._entries[key] = self.driver.entry(path, code.symbol)
            self._loads += 1
        return self._entries[key]

    def _own(self, code: Code) -> Path:
        """A name of its own for the file: a driver that has loaded a path doesn't load it again."""
        if code.digest not in self._fresh:
            name = f"fresh-{os.getpid()}-{next(self._serial)}{code.path.suffix}"
            path = code.path.with_name(name)
            path.write_bytes(code.path.read_bytes())
            self._fresh[code.digest] = path
        return self._fresh[code.digest]
