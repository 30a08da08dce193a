"""NVRTC through NVIDIA's binding and through CuPy's: the same code, the same complaints."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from workers.backend import Rejected, Unavailable
from workers.nvrtc import binding, cubin, library
from workers.nvrtc.binding import OfCupy, OfNvidia, Program
from workers.nvrtc.library import Nvrtc

TEXT = "template <typename T> __global__ void k(T *out) { out[threadIdx.x] = T(1) / out[0]; }"
FLAGS = ("--gpu-architecture=sm_80", "--fmad=false")


@pytest.fixture
def through_cupy(monkeypatch: pytest.MonkeyPatch, nvrtc: Nvrtc) -> None:
    """As on a machine where CuPy is all that is installed."""
    pytest.importorskip("cupy_backends", reason="CuPy isn't installed; ./run pip install -e '.[gpu]'")
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)


def test_cupys_own_is_taken_where_nvidias_binding_is_away(through_cupy: None, nvrtc: Nvrtc) -> None:
    found = binding.installed()
    assert isinstance(found, OfCupy)
    assert (found.version(), tuple(sorted(found.archs()))) == (nvrtc.version, nvrtc.archs)


def test_both_give_the_same_code(nvrtc: Nvrtc, through_cupy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(TEXT, "k.cu", {}, FLAGS, "k<float>")
    theirs = binding.installed().compile(program)
    monkeypatch.undo()
    ours = binding.installed()
    assert isinstance(ours, OfNvidia)
    made = ours.compile(program)
    assert made.lowered == theirs.lowered == "_Z1kIfEvPT_"
    assert cubin.digest(made.code) == cubin.digest(theirs.code)


def test_cupys_says_what_is_wrong_with_a_text(through_cupy: None) -> None:
    with pytest.raises(Rejected, match=r"k\.cu\(1\): error: .*nonsense"):
        library.compile_text("__global__ void k() { nonsense; }", "k.cu", FLAGS)


VIRTUAL = ("--gpu-architecture=compute_80", "--fmad=false")


@pytest.mark.parametrize("through", ["nvidia", "cupy"])
def test_a_virtual_architecture_gives_ptx(nvrtc: Nvrtc, through: str, request: pytest.FixtureRequest) -> None:
    if through == "cupy":
        request.getfixturevalue("through_cupy")
    made = library.compile_text(TEXT, "k.cu", VIRTUAL, "k<float>")
    assert b".target sm_80" in made.cubin
    assert b"rcp.rn.f32" in made.cubin
    assert not made.cubin.endswith(b"\0")


class NoLibrary(Exception):
    """As what a binding raises that is installed and finds no library."""


class Broken:
    """Either binding's module where the library is away."""

    def nvrtcVersion(self) -> tuple[int, int, int]:
        raise NoLibrary("libnvrtc.so.12 not found")

    getVersion = nvrtcVersion


def with_modules(monkeypatch: pytest.MonkeyPatch, nvidia: object, cupy: object) -> None:
    for name, module in (("cuda.bindings", nvidia), ("cupy_backends.cuda.libs", cupy)):
        monkeypatch.setitem(sys.modules, name, module and SimpleNamespace(nvrtc=module))


def test_cupys_own_is_taken_where_nvidias_library_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    with_modules(monkeypatch, Broken(), CupysNvrtc(b""))
    assert isinstance(binding.installed(), OfCupy)
    assert binding.installed().version() == (12, 9)


@pytest.mark.parametrize(
    ("nvidia", "cupy", "because"),
    [
        (Broken(), Broken(), "cuda.bindings finds no NVRTC (NoLibrary) and CuPy finds no NVRTC (NoLibrary)"),
        (Broken(), None, "cuda.bindings finds no NVRTC (NoLibrary)"),
        (None, Broken(), "CuPy finds no NVRTC (NoLibrary)"),
        (None, None, "NVIDIA's compiler isn't installed"),
    ],
)
def test_what_is_wrong_with_each_binding_is_said_where_none_works(
    monkeypatch: pytest.MonkeyPatch, nvidia: object, cupy: object, because: str
) -> None:
    with_modules(monkeypatch, nvidia, cupy)
    with pytest.raises(Unavailable) as why:
        binding.installed()
    assert str(why.value) == f"nvrtc is unavailable because {because}; ./run pip install -e '.[nvrtc]'"


class CupysNvrtc:
    """As cupy_backends.cuda.libs.nvrtc answers: PTX as text up to CuPy 13, as bytes from 14 on."""

    NVRTCError = RuntimeError

    def __init__(self, ptx: bytes | str) -> None:
        self._ptx = ptx

    def getVersion(self) -> tuple[int, int]:
        return 12, 9

    def createProgram(self, text: str, name: str, headers: list[bytes], names: list[bytes]) -> int:
        return 1

    def compileProgram(self, program: int, flags: tuple[str, ...]) -> None:
        assert flags == VIRTUAL

    def getPTX(self, program: int) -> bytes | str:
        return self._ptx

    def getProgramLog(self, program: int) -> str:
        return ""

    def destroyProgram(self, program: int) -> None: ...


PTX = ".target sm_80\n"


@pytest.mark.parametrize("ptx", [PTX, PTX + "\0", PTX.encode(), PTX.encode() + b"\0"])
def test_cupys_ptx_is_taken_as_text_and_as_bytes(ptx: bytes | str) -> None:
    made = OfCupy(CupysNvrtc(ptx)).compile(Program(TEXT, "k.cu", {}, VIRTUAL, ptx=True))
    assert made.code == PTX.encode()
