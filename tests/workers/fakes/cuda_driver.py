"""A board that isn't there: CUDA's calls on this machine's memory, kernels run by the host's runtime.

What the backend does itself is really done: what it uploads, where it puts it, which bytes it passes as
arguments, what it downloads. A `cubin` carries the text that it was made of: the fake runs what was loaded.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernels.model import Device, Grid
from tests.workers.nvrtc.elf import Part, elf
from workers.backend import KernelFault, Rejected
from workers.backends.cuda import Cuda
from workers.cuda import probe
from workers.cuda.arch import Version
from workers.cuda.driver import Gemm
from workers.cuda.errors import CudaError
from workers.cuda.memory import Plain
from workers.host import compiler
from workers.host.module import FLOATS, INTEGERS, Module
from workers.nvrtc import cubin
from workers.nvrtc.library import Compiled, Nvrtc
from workers.state import compile_cache

UUID = "GPU-0f4c8e1a-5f3d-4b6e-9d2a-7c1b2a3d4e5f"
DEVICE = Device(
    f"rtx-3060-{UUID[4:12]}",
    "rtx-3060",
    "NVIDIA GeForce RTX 3060",
    UUID,
    1,
    (("sm", "sm_86"), ("driver", "575.57")),
)
NVRTC = Nvrtc((12, 9), (75, 80, 86, 90))
CAPACITY = 1 << 28  # bytes
POISONING = (214, 700, 702, 716, 719, 999)  # codes after which a real context gives nothing else
LOG = """ptxas info    : Compiling entry function '{entry}' for '{arch}'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers"""


def compile_text(text: str, name: str, flags: tuple[str, ...], entry: str = "") -> Compiled:
    """A file of NVRTC's form with the text where the code would be."""
    arch = flags[0].partition("=")[2]
    state = [Part(".nv.global", bytes(4))] if "\n__device__ int counter" in text else []
    body = f"{name}\0{'exact' if '--fmad=false' in flags else 'default'}\0{text}".encode()
    symbols = [entry] if entry else compiler_entries(text)
    log = "\n".join(LOG.format(entry=symbol, arch=arch) for symbol in symbols)
    return Compiled(elf(Part(".text.all", body), *state), log, entry)


def compiler_entries(text: str) -> list[str]:
    """By the text's define, else by what it declares."""
    named = re.findall(r"^#define ENTRY (\w+)", text, re.M)
    return named or re.findall(r"__global__ void (\w+)\(", text)


@dataclass
class Entry:
    """A kernel of a loaded file."""

    name: str
    module: Module


@dataclass
class FakeDriver:
    """`calls` is what was asked of it, in order; `fails` has a code for what is to fail once."""

    uuids: tuple[str, ...] = (UUID,)
    sm: int = 86
    cuda: Version = (12, 9)
    capacity: int = CAPACITY
    fails: dict[str, int] = field(default_factory=dict)
    before_launch: Callable[[FakeDriver], None] = lambda driver: None
    label: str = "fake CuPy"
    calls: list[str] = field(default_factory=list)
    memory: dict[int, np.ndarray] = field(default_factory=dict)  # what is allocated, by address
    loaded: list[Path] = field(default_factory=list)
    passed: list[tuple[np.generic, ...]] = field(default_factory=list)  # arguments of every launch
    clock: float = 0.0
    tick_us: float = 10.0  # from an event to the next
    dead: int = 0  # the code that every call gives from now on

    def boards(self) -> tuple[str, ...]:
        return self.uuids

    def capability(self) -> int:
        return self.sm

    def version(self) -> Version:
        return self.cuda

    def room(self) -> tuple[int, int]:
        return self.capacity - sum(block.nbytes for block in self.memory.values()), self.capacity

    def allocate(self, nbytes: int) -> int:
        self._ask("allocate")
        if nbytes > self.room()[0]:
            raise CudaError(2, f"cudaMalloc of {nbytes} bytes")
        whole = np.full(nbytes + 256, 0x77, np.uint8)
        start = -whole.ctypes.data % 256
        address = int(whole.ctypes.data) + start
        self.memory[address] = whole[start : start + nbytes]
        return address

    def free(self, address: int) -> None:
        self._ask("free")
        self.memory.pop(address)[:] = 0xDD

    def upload(self, address: int, data: np.ndarray) -> None:
        self._ask("upload")
        ctypes.memmove(address, np.ascontiguousarray(data).ctypes.data, data.nbytes)

    def download(self, address: int, nbytes: int) -> np.ndarray:
        self._ask("download")
        return np.frombuffer(ctypes.string_at(address, nbytes), np.uint8).copy()

    def copy(self, to: int, address: int, nbytes: int) -> None:
        self._ask("copy")
        ctypes.memmove(to, address, nbytes)

    def entry(self, path: Path, symbol: str) -> Entry:
        self._ask("entry")
        if path not in self.loaded:
            self.loaded.append(path)
        (code,) = (one.data for one in cubin.sections(path.read_bytes()) if one.name == ".text.all")
        name, build, text = code.decode().split("\0", 2)
        found = [symbol] if "<" in symbol or "::" in symbol else []
        return Entry(symbol, Module(compiler.build(text, name, build, compile_cache(), found), name))

    def forget(self) -> None:
        self.loaded.clear()

    def static_shared_bytes(self, entry: Entry) -> int:
        return entry.module.entries[entry.name].static_shared_bytes

    def launch(
        self, entry: Entry, grid: Grid, block: Grid, args: tuple[np.generic, ...], dynamic_shared_bytes: int
    ) -> None:
        self._ask("launch")
        self.before_launch(self)
        self.passed.append(args)
        sizes = [_bytes_of(parameter) for parameter in entry.module.entries[entry.name].parameters]
        assert [arg.dtype.itemsize for arg in args] == sizes, "bytes of another size than the parameters'"
        numbers = [arg.item() for arg in args]
        try:
            entry.module.launch(entry.name, grid, block, dynamic_shared_bytes, numbers, 0)
        except KernelFault:
            self.dead = 700
        except Rejected:
            raise CudaError(1, "launching") from None

    def gemm(self, call: Gemm) -> None:
        self._ask("gemm")
        of = np.dtype(call.dtype)
        w = _array(call.weights, call.rows * call.pitch, of).reshape(call.rows, call.pitch)[:, : call.cols]
        x = _array(call.x, call.batch * call.cols, of).reshape(call.batch, call.cols)
        out = (x.astype(np.float32) @ w.astype(np.float32).T).astype(np.float32)
        ctypes.memmove(call.out, np.ascontiguousarray(out).ctypes.data, out.nbytes)

    def blas(self) -> str:
        return "fake cuBLAS 12.9"

    def event(self) -> float:
        self._ask("event")
        self.clock += self.tick_us
        return self.clock

    def elapsed_us(self, first: float, last: float) -> float:
        return last - first

    def wait(self) -> None:
        self._ask("wait")

    def _ask(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fails:
            self.dead = self.fails.pop(call)
        if self.dead:
            code = self.dead
            self.dead = code if code in POISONING else 0
            raise CudaError(code, call)


def _bytes_of(parameter: Any) -> int:
    if parameter.pointer:
        return 8
    return 4 if parameter.name == "f32" else 8 if parameter.name in FLOATS else INTEGERS[parameter.name][0]


def _array(address: int, count: int, of: np.dtype[Any]) -> np.ndarray:
    return np.frombuffer(ctypes.string_at(address, count * of.itemsize), of)


class FakeProbe(probe.Probe):
    """A machine with the one board."""

    def devices(self) -> tuple[Device, ...]:
        return (DEVICE,)


def fake_cuda(driver: FakeDriver | None = None) -> Cuda:
    """The backend over a board that isn't there."""
    made = driver or FakeDriver()
    return Cuda(
        open_driver=lambda: made,
        find_nvrtc=lambda: NVRTC,
        compile_text=compile_text,
        look=lambda: FakeProbe(None, dict(os.environ), lambda: probe.ask_driver()),
        allocator=Plain,
    )
