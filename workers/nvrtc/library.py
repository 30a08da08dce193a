"""The installed NVRTC: which architectures it knows, and a text compiled for one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from workers.backend import Rejected
from workers.nvrtc import binding, headers

ERROR_LINE = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)
OWN_TIME = re.compile(r"\bCompile time\b")  # differs each time, so it is no evidence


@dataclass(frozen=True)
class Nvrtc:
    """The library that is installed here."""

    version: tuple[int, int]
    archs: tuple[int, ...]  # 86 for sm_86

    @property
    def label(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@dataclass(frozen=True)
class Compiled:
    """What the compiler gave for a text it accepted."""

    cubin: bytes  # PTX, where the flags name a virtual architecture
    log: str
    lowered: str = ""  # the entry's name in it, where it was asked for by its name in the text


@cache
def find() -> Nvrtc:
    """The installed NVRTC; raises Unavailable with the extra's name."""
    nvrtc = binding.installed()
    return Nvrtc(nvrtc.version(), tuple(sorted(nvrtc.archs())))


def compile_text(text: str, name: str, flags: tuple[str, ...], entry: str = "") -> Compiled:
    """The code of a CUDA text under exactly these flags; `name` stands for its file in messages.

    With an entry, which may be a template's instance, that is compiled, and headers may be included.
    Raises Rejected with the compiler's own line, or CannotRun for a header of CUDA's that isn't installed.
    """
    where = (f"--include-path={headers.folder()}",) if entry and headers.folder() else ()
    brought = headers.OWN if entry else {}
    program = binding.Program(text, name, brought, (*flags, *where), entry, is_virtual(flags))
    made = binding.installed().compile(program)
    log = clean(made.log)
    if not made.code:
        headers.demand_found(error_line(log))
        raise Rejected(error_line(log) or made.status)
    return Compiled(made.code, log, made.lowered)


def is_virtual(flags: tuple[str, ...]) -> bool:
    """Whether the flags name an architecture that only PTX is made for."""
    return any(flag.startswith("--gpu-architecture=compute_") for flag in flags)


def clean(log: str) -> str:
    """A log without the compiler's own times and empty lines."""
    lines = (line.strip() for line in log.replace("\0", "").splitlines())
    return "\n".join(line for line in lines if line and not OWN_TIME.search(line))


def error_line(log: str) -> str:
    """The first line that says what is wrong; empty where none does."""
    return next((line for line in log.splitlines() if ERROR_LINE.search(line)), "")
