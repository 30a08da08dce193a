"""Two ways to call NVRTC: NVIDIA's own binding, and CuPy's for machines that have nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from workers.backend import Unavailable

EXTRA = "./run pip install -e '.[nvrtc]'"


@dataclass(frozen=True)
class Answer:
    """What the compiler gave for a program; `code` is empty where it refused it."""

    code: bytes  # a cubin, or PTX where that was asked for
    log: str
    lowered: str  # an entry's name in the code, where one was asked for by its name in the text
    status: str  # NVRTC_SUCCESS, or the vendor's name of what went wrong


@dataclass(frozen=True)
class Program:
    """A text and what stands beside it."""

    text: str
    name: str  # of its file in messages
    headers: Mapping[str, str]  # by the name that the text includes them by
    flags: tuple[str, ...]
    entry: str = ""  # to be looked up by its name in the text
    ptx: bool = False  # give PTX, not a cubin


class Binding(Protocol):
    """The calls that the farm makes; errors are whatever the binding raises."""

    def version(self) -> tuple[int, int]: ...
    def archs(self) -> tuple[int, ...]: ...
    def compile(self, program: Program) -> Answer: ...


def installed() -> Binding:
    """NVIDIA's binding where that finds the library, else CuPy's; Unavailable says what each lacks."""
    reasons = []
    for name, load in BINDINGS.items():
        try:
            binding = load()
            binding.version()
        except ModuleNotFoundError:
            continue
        except Exception as error:  # noqa: BLE001 - the bindings raise classes of their own where the library is away
            reasons.append(f"{name} finds no NVRTC ({type(error).__name__})")
        else:
            return binding
    because = " and ".join(reasons) or "NVIDIA's compiler isn't installed"
    raise Unavailable(f"nvrtc is unavailable because {because}; {EXTRA}")


class OfNvidia:
    """cuda.bindings.nvrtc: it finds the library in wheels, in a toolkit, and where the system looks."""

    def __init__(self, nvrtc: Any) -> None:
        self._nvrtc = nvrtc

    def version(self) -> tuple[int, int]:
        major, minor = _done(self._nvrtc.nvrtcVersion())
        return major, minor

    def archs(self) -> tuple[int, ...]:
        return tuple(_done(self._nvrtc.nvrtcGetSupportedArchs()))

    def compile(self, program: Program) -> Answer:
        nvrtc = self._nvrtc
        names = [name.encode() for name in program.headers]
        texts = [text.encode() for text in program.headers.values()]
        made = _done(
            nvrtc.nvrtcCreateProgram(program.text.encode(), program.name.encode(), len(names), texts, names)
        )
        try:
            if program.entry:
                _done(nvrtc.nvrtcAddNameExpression(made, program.entry.encode()))
            told = [flag.encode() for flag in program.flags]
            status = nvrtc.nvrtcCompileProgram(made, len(told), told)[0]
            log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, made).decode(
                errors="replace"
            )
            if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                return Answer(b"", log, "", status.name)
            asked = _done(nvrtc.nvrtcGetLoweredName(made, program.entry.encode())) if program.entry else b""
            code = (
                _ptx(_bytes(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, made))
                if program.ptx
                else _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, made)
            )
            return Answer(code, log, asked.decode(), status.name)
        finally:
            nvrtc.nvrtcDestroyProgram(made)


class OfCupy:
    """cupy_backends.cuda.libs.nvrtc: the library that CuPy itself would compile with, but with our flags."""

    def __init__(self, nvrtc: Any) -> None:
        self._nvrtc = nvrtc

    def version(self) -> tuple[int, int]:
        major, minor = self._nvrtc.getVersion()
        return major, minor

    def archs(self) -> tuple[int, ...]:
        return tuple(self._nvrtc.getSupportedArchs())

    def compile(self, program: Program) -> Answer:
        nvrtc = self._nvrtc
        names = [name.encode() for name in program.headers]
        texts = [text.encode() for text in program.headers.values()]
        made = nvrtc.createProgram(program.text, program.name, texts, names)
        try:
            if program.entry:
                nvrtc.addNameExpression(made, program.entry)
            try:
                nvrtc.compileProgram(made, program.flags)
            except nvrtc.NVRTCError as error:
                return Answer(b"", nvrtc.getProgramLog(made), "", str(error))
            lowered = nvrtc.getLoweredName(made, program.entry) if program.entry else ""
            code = _ptx(nvrtc.getPTX(made)) if program.ptx else nvrtc.getCUBIN(made)
            return Answer(code, nvrtc.getProgramLog(made), lowered, "NVRTC_SUCCESS")
        finally:
            nvrtc.destroyProgram(made)


# Imported late: extras that most machines lack, and a third of a second where they don't.
def _of_nvidia() -> Binding:
    from cuda.bindings import nvrtc

    return OfNvidia(nvrtc)


def _of_cupy() -> Binding:
    from cupy_backends.cuda.libs import nvrtc

    return OfCupy(nvrtc)


BINDINGS: Mapping[str, Callable[[], Binding]] = {"cuda.bindings": _of_nvidia, "CuPy": _of_cupy}


def _ptx(given: bytes | str) -> bytes:
    """PTX without the NUL that ends it; CuPy gives text up to 13 and bytes from 14 on."""
    return (given.encode() if isinstance(given, str) else given).rstrip(b"\0")


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
