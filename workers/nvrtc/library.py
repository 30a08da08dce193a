"""The installed NVRTC: which architectures it knows, and a text compiled to a cubin for one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from workers.backend import Rejected, Unavailable
from workers.nvrtc import headers

EXTRA = "./run pip install -e '.[nvrtc]'"
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

    cubin: bytes
    log: str
    lowered: str = ""  # the entry's name in it, where it was asked for by its name in the text


@cache
def find() -> Nvrtc:
    """The installed NVRTC; raises Unavailable with the extra's name."""
    nvrtc = _bindings()
    try:
        major, minor = _done(nvrtc.nvrtcVersion())
        archs = _done(nvrtc.nvrtcGetSupportedArchs())
    except Exception as error:  # noqa: BLE001 - the bindings raise classes of their own where the library is away
        raise Unavailable(
            f"nvrtc is unavailable because its library doesn't load ({type(error).__name__}); {EXTRA}"
        ) from None
    return Nvrtc((major, minor), tuple(sorted(archs)))


def compile_text(text: str, name: str, flags: tuple[str, ...], entry: str = "") -> Compiled:
    """The cubin of a CUDA text under exactly these flags; `name` stands for its file in messages.

    With an entry, which may be a template's instance, that is compiled, and headers may be included.
    Raises Rejected with the compiler's own line, or CannotRun for a header of CUDA's that isn't installed.
    """
    nvrtc = _bindings()
    brought = headers.OWN if entry else {}
    texts, names = [part.encode() for part in brought.values()], [part.encode() for part in brought]
    program = _done(nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), len(names), texts, names))
    try:
        if entry:
            _done(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        where = (f"--include-path={headers.folder()}",) if entry and headers.folder() else ()
        told = [flag.encode() for flag in (*flags, *where)]
        status = nvrtc.nvrtcCompileProgram(program, len(told), told)[0]
        log = clean(_text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            headers.demand_found(error_line(log))
            raise Rejected(error_line(log) or status.name)
        lowered = _done(nvrtc.nvrtcGetLoweredName(program, entry.encode())).decode() if entry else ""
        return Compiled(_bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log, lowered)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def clean(log: str) -> str:
    """A log without the compiler's own times and empty lines."""
    lines = (line.strip() for line in log.replace("\0", "").splitlines())
    return "\n".join(line for line in lines if line and not OWN_TIME.search(line))


def error_line(log: str) -> str:
    """The first line that says what is wrong; empty where none does."""
    return next((line for line in log.splitlines() if ERROR_LINE.search(line)), "")


def _bindings() -> Any:
    # Imported late: an extra that most machines lack, and a third of a second where they don't.
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise Unavailable(
            f"nvrtc is unavailable because NVIDIA's compiler isn't installed; {EXTRA}"
        ) from None
    return nvrtc


def _done(answer: tuple[Any, ...]) -> Any:
    """What a call gave, without its status; RuntimeError where that isn't success."""
    status, *given = answer
    if status.value:
        raise RuntimeError(f"NVRTC answered {status.name}")
    return given[0] if len(given) == 1 else tuple(given)


def _bytes(size: Any, fill: Any, program: Any) -> bytes:
    buffer = bytearray(_done(size(program)))
    _done((*fill(program, buffer),))
    return bytes(buffer)


def _text(size: Any, fill: Any, program: Any) -> str:
    return _bytes(size, fill, program).decode(errors="replace")
