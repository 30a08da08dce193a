"""The same on a board: texts through the NVRTC that CuPy has, launched by CuPy, buffers between bands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from farm.repro.body import PATTERN, WAYS, Cannot, Way, Wrong, demand_written, image, numbers

BAND = 4096  # bytes of pattern before and behind a buffer
MAJOR, MINOR = 75, 76  # CUDA Runtime API, cudaDeviceAttr: of the compute capability
SHARED_WITHOUT_ASKING = 48 << 10  # dynamic bytes of a block
ARCHITECTURE = "--gpu-architecture="


class OnBoard:
    """A buffer in memory of the board's own; `image` is its (nbytes,) uint8 here, as it was or is."""

    def __init__(self, cuda: Any, spec: dict[str, Any], given: np.ndarray) -> None:
        self.spec, self.image, self._cuda = spec, given, cuda
        front = BAND + spec["align"]  # no more aligned than its plan says
        self.whole = np.full(front + given.nbytes + BAND, PATTERN, np.uint8)
        self._inside = slice(front, front + given.nbytes)
        self.whole[self._inside] = given
        self.base = cuda.malloc(self.whole.nbytes)
        self.address = self.base + front
        cuda.memcpy(self.base, self.whole.ctypes.data, self.whole.nbytes, cuda.memcpyHostToDevice)

    def fetch(self) -> None:
        """Brings the buffer home and frees it; Wrong where something else than an output was written to."""
        cuda, found = self._cuda, np.empty_like(self.whole)
        cuda.memcpy(found.ctypes.data, self.base, found.nbytes, cuda.memcpyDeviceToHost)
        cuda.free(self.base)
        inside = found[self._inside]
        if self.spec["role"] == "in" and not np.array_equal(inside, self.image):
            raise Wrong(f"FAIL: input {self.spec['name']} was written to")
        self.whole[self._inside] = inside
        if written := int(np.count_nonzero(found != self.whole)):
            raise Wrong(f"FAIL: {written} bytes written around buffer {self.spec['name']}")
        self.image = inside

    def values(self) -> np.ndarray:
        """The numbers in it, in its shape."""
        return numbers(self.spec, self.image)


def load(case: dict[str, Any], folder: Path) -> list[Any]:
    """CUDA's runtime and driver as CuPy has them, then a kernel for each launch; raises Wrong for a text."""
    try:
        import cupy  # the vendor's own, which most machines lack
        from cupy_backends.cuda.api import driver, runtime
        from cupy_backends.cuda.libs import nvrtc
    except ImportError as error:
        raise Cannot(f"CuPy doesn't load ({error}); pip install cupy-cuda12x or cupy-cuda13x") from None
    with answers(case, runtime, driver):
        number = 10 * runtime.deviceGetAttribute(MAJOR, 0) + runtime.deviceGetAttribute(MINOR, 0)
    if number not in nvrtc.getSupportedArchs():
        raise Cannot(f"CuPy's NVRTC knows no sm_{number}; install another version of CuPy or NVRTC")
    kernels = []
    for at, launch in enumerate(case["launches"]):
        path = folder / f"launch{at}.cubin"
        flags = (f"{ARCHITECTURE}sm_{number}", *case["flags"], *includes())
        symbol = build(case["texts"][launch["text"]], launch, flags, path, nvrtc)
        with answers(case, runtime, driver):
            kernels.append(cupy.RawModule(path=str(path)).get_function(symbol))
            if launch["shared"] > SHARED_WITHOUT_ASKING:
                kernels[-1].max_dynamic_shared_size_bytes = launch["shared"]
    return [runtime, driver, *kernels]


def includes() -> list[str]:
    """Where CUDA's own headers are, if somebody says so."""
    return [f"--include-path={os.environ['CUDA_HOME']}/include"] if os.environ.get("CUDA_HOME") else []


def build(text: str, launch: dict[str, Any], flags: tuple[str, ...], path: Path, nvrtc: Any) -> str:
    """Compiles a text to a cubin in a file by these flags alone; the entry's name in it."""
    names = [name.encode() for name in launch["headers"]]
    bodies = [body.encode() for body in launch["headers"].values()]
    program = nvrtc.createProgram(text, launch["file"], bodies, names)
    if launch["by_name"]:
        nvrtc.addNameExpression(program, launch["entry"])
    try:
        nvrtc.compileProgram(program, flags)
    except nvrtc.NVRTCError as error:
        lines = [line for line in nvrtc.getProgramLog(program).splitlines() if "error" in line]
        told = lines[0] if lines else str(error)
        if "open source file" in told:
            raise Cannot(f"{told}; set CUDA_HOME to a toolkit") from None
        raise Wrong(f"REJECT: {told}") from None
    path.write_bytes(nvrtc.getCUBIN(program))
    symbol: str = nvrtc.getLoweredName(program, launch["entry"]) if launch["by_name"] else launch["entry"]
    return symbol


def turn_on_board(case: dict[str, Any], loaded: list[Any], turn: int) -> dict[str, np.ndarray]:
    """The judged outputs of one turn, each with another poison."""
    runtime, driver, *kernels = loaded
    with answers(case, runtime, driver):
        buffers = {spec["name"]: OnBoard(runtime, spec, image(case, spec, turn)) for spec in case["buffers"]}
        for launch, kernel in zip(case["launches"], kernels, strict=True):
            args = tuple(argument(arg, buffers) for arg in launch["args"])
            kernel(tuple(launch["grid"]), tuple(launch["block"]), args, shared_mem=launch["shared"])
        runtime.deviceSynchronize()
        for buffer in buffers.values():
            buffer.fetch()
    for want in case["wants"]:
        demand_written(buffers[want["buffer"]].spec, buffers[want["buffer"]].image, turn)
    return {want["buffer"]: buffers[want["buffer"]].values() for want in case["wants"]}


def argument(arg: list[Any], buffers: dict[str, OnBoard]) -> np.generic:
    """Pointers as 64 bits, scalars as the plan types them."""
    sort, value = arg
    if sort == "buffer":
        return np.uint64(buffers[value].address + buffers[value].spec["offset"])
    of = np.dtype(sort)
    found: np.generic = of.type(value if of.kind == "f" else int(value))
    return found


@contextmanager
def answers(case: dict[str, Any], runtime: Any, driver: Any) -> Iterator[None]:
    """CUDA's codes as what they say of the kernel; those that say nothing of it are why it can't run."""
    try:
        yield
    except (runtime.CUDARuntimeError, driver.CUDADriverError) as error:
        verdict = case["codes"].get(str(error.status))
        raise (Wrong(f"{verdict}: {error}") if verdict else Cannot(str(error))) from None


WAYS["cuda"] = Way(load, turn_on_board)
