"""Runs one case of a kernel alone, as its cell ran it, and holds what comes back against what it must be.

Needs Linux, numpy and, for a CPU's cell, a C++ compiler (CXX, g++, clang++ or c++), for a GPU's a board and
CuPy, and nothing else. Exit code 0: it is right; 3: it is wrong; 1: it could not be run here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workers.host.abi import Kernel, Launch, Report

POISONS = (0x7FC0DEAD, 0xFFC1BEEF)  # float32 NaNs that no kernel makes
ALLOCATED = 256  # in every second turn a base with an offset is where a GPU's allocator has it
GUARD, PATTERN = 1 << 18, 0xA5  # bytes of inaccessible memory around a buffer, and what fills the slack
SCALARS = {"i4": "<i", "u4": "<I", "i8": "<q", "u8": "<Q", "f4": "<f", "f8": "<d"}
DEADLINE_S = 600
RIGHT, CANNOT, WRONG = 0, 1, 3
FILLED = "-ftrivial-auto-var-init=pattern"  # as the farm compiles where the compiler takes it


class Wrong(Exception):
    """The kernel is at fault."""


class Cannot(Exception):
    """This machine can't run it."""


class Buffer:
    """Memory whose end lies against an inaccessible page; `image` is its (nbytes,) uint8."""

    def __init__(self, spec: dict[str, Any], image: np.ndarray, turn: int) -> None:
        self.spec = spec
        align = max(ALLOCATED, spec["align"]) if turn % 2 and spec["offset"] else spec["align"]
        size = -(-max(1, image.nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, size + 2 * GUARD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self.memory, np.uint8)
        self.base, self.size = whole.ctypes.data, size
        start = GUARD + (size - image.nbytes) // align * align
        self.image = whole[start : start + image.nbytes]
        self.slack = (whole[GUARD:start], whole[start + image.nbytes : GUARD + size])
        for band in self.slack:
            band[:] = PATTERN
        self.image[:] = image
        self.address = self.base + start
        sealed = spec["role"] == "in"
        for offset, length, access in (
            (0, GUARD, 0),
            (GUARD + size, GUARD, 0),
            (GUARD, size, 1 if sealed else 3),
        ):
            if ctypes.CDLL(None).mprotect(
                ctypes.c_void_p(self.base + offset), ctypes.c_size_t(length), access
            ):
                raise Cannot("memory can't be guarded: mprotect failed")

    def holds(self, address: int) -> bool:
        return self.base <= address < self.base + self.size + 2 * GUARD

    def demand_whole(self) -> None:
        if written := sum(int(np.count_nonzero(band != PATTERN)) for band in self.slack):
            raise Wrong(f"{written} bytes written around buffer {self.spec['name']}")

    def values(self) -> np.ndarray:
        """The numbers in it, in its shape."""
        return numbers(self.spec, self.image)


@dataclass(frozen=True)
class Way:
    """How a case is run."""

    load: Callable[[dict[str, Any], Path], list[Any]]  # its texts, compiled in a folder
    turn: Callable[[dict[str, Any], list[Any], int], dict[str, np.ndarray]]  # the judged outputs of one


def main(case: dict[str, Any]) -> int:
    """Says what the case's cell said and what is found here; the kernel runs in a process of its own."""
    print(f"the cell: {case['verdict']} {case['name']}: {case['reason'] or 'right'}", flush=True)
    child = os.fork()
    if not child:
        os._exit(told(case))
    ends_s = time.monotonic() + DEADLINE_S
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > ends_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(f"here: TIMEOUT: not done after {DEADLINE_S} s")
            return WRONG
        time.sleep(0.01)
    code = os.waitstatus_to_exitcode(ended[1])
    if code < 0:
        print(f"here: CRASH: ended by signal {-code}")
    return WRONG if code < 0 else code


def told(case: dict[str, Any]) -> int:
    """Runs it and prints what came of it; the exit code."""
    try:
        line = run(case)
        print(f"here: PASS: {line}", flush=True)
        return RIGHT
    except Wrong as error:
        print(f"here: {error}", flush=True)
        return WRONG
    except (Cannot, OSError, MemoryError) as error:
        print(f"here: could not be run: {error}", flush=True)
        return CANNOT


def run(case: dict[str, Any]) -> str:
    """What was compared; Wrong with verdict and reason."""
    with tempfile.TemporaryDirectory() as folder:
        way = WAYS[case["backend"]]
        loaded = way.load(case, Path(folder))
        outputs = [way.turn(case, loaded, turn) for turn in range(case["turns"])]
    worst, count = 0.0, 0
    for want in case["wants"]:
        ratio = compare(want, outputs[0][want["buffer"]])
        worst, count = max(worst, ratio), count + want["want"].size
    for turn, other in enumerate(outputs[1:], 1):
        for name, first in outputs[0].items():
            if case["deterministic"] and not np.array_equal(
                first, other[name], equal_nan=first.dtype.kind == "f"
            ):
                raise Wrong(f"FAIL: nondeterministic: {name} differs between turn 0 and {turn}")
    return f"{count} positions compared, the worst at {worst:.4g} of its limit"


def libraries(case: dict[str, Any], folder: Path) -> list[Any]:
    """One loaded library per text; Wrong where the compiler refuses it."""
    command, more = compiler()
    for name, text in case["runtime"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf8")
    scheduler = [*case["scheduler_flags"], *more, "-pthread", "-c", "scheduler.cpp", "-o", "scheduler.o"]
    if said := compiled([*command, *scheduler], folder):
        raise Cannot(f"the runtime can't be built: {said}")
    found = []
    for number, text in enumerate(case["texts"]):
        (folder / f"text{number}.cpp").write_text(text, encoding="utf8")
        words = [*case["flags"], *more, "-I.", "-Iinclude", *case["link"], f"text{number}.cpp"]
        words += ["scheduler.o", "-lm", "-o", f"text{number}.so"]
        if said := compiled([*command, *words], folder):
            raise Wrong(f"REJECT: {said}")
        found.append(ctypes.CDLL(str(folder / f"text{number}.so"), mode=os.RTLD_LOCAL))
    return found


def compiler() -> tuple[list[str], list[str]]:
    """The command, and the flags that depend on it and on this processor."""
    if platform.system() != "Linux":
        raise Cannot(f"the runtime needs Linux; this is {platform.system()}")
    names = os.environ["CXX"].split() if os.environ.get("CXX") else []
    for words in [names] if names else [["g++"], ["clang++"], ["c++"]]:
        if program := shutil.which(words[0]):
            command = [program, *words[1:]]
            version = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, check=False
            ).stdout
            more = [] if "clang" in version else ["-fno-gnu-unique"]
            more += [FILLED] if takes(command, FILLED) else []
            if platform.machine() == "x86_64":
                return command, [*more, "-march=native", "-fcf-protection=none"]
            return command, [*more, "-mcpu=native"]
    raise Cannot("there is no C++ compiler; install g++ or name one by CXX")


def takes(command: list[str], flag: str) -> bool:
    words = [*command, "-Werror", flag, "-x", "c++", "-fsyntax-only", os.devnull]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def compiled(words: list[str], folder: Path) -> str:
    """The compiler's first error; empty where it made what it should."""
    answer = subprocess.run(words, capture_output=True, text=True, errors="replace", cwd=folder, check=False)
    lines = answer.stderr.splitlines() or [f"{words[0]} ended with {answer.returncode}"]
    return next((line for line in lines if "error" in line), lines[0]) if answer.returncode else ""


def execute(case: dict[str, Any], modules: list[Any], turn: int) -> dict[str, np.ndarray]:
    """The judged outputs of one turn, each with another poison; odd turns go backwards."""
    buffers = {spec["name"]: Buffer(spec, image(case, spec, turn), turn) for spec in case["buffers"]}
    for number, launch in enumerate(case["launches"]):
        start(modules[launch["text"]], launch, buffers, turn % 2, number)
        for buffer in buffers.values():
            buffer.demand_whole()
    found = {}
    for want in case["wants"]:
        buffer = buffers[want["buffer"]]
        demand_written(buffer.spec, buffer.image, turn)
        found[want["buffer"]] = buffer.values().copy()
    return found


def image(case: dict[str, Any], spec: dict[str, Any], turn: int) -> np.ndarray:
    """A buffer before a turn: what it is given, its fill, or poison."""
    if spec["name"] in case["images"]:
        given: np.ndarray = case["images"][spec["name"]]
        return given
    size = 2 if spec["dtype"] in ("f2", "bf16") else 4
    words = np.full(-(-spec["nbytes"] // size), poison(spec, turn), f"<u{size}")
    made = words.view(np.uint8)[: spec["nbytes"]].copy()
    if spec["fill"] is not None:
        number = np.array(spec["fill"], np.float32)
        bf16 = spec["dtype"] == "bf16"
        element = (number.view("<u4") >> 16).astype("<u2") if bf16 else number.astype(spec["dtype"])
        np.ndarray(spec["shape"], element.dtype, made, spec["offset"], spec["strides"])[...] = element
    return made


def numbers(spec: dict[str, Any], image: np.ndarray) -> np.ndarray:
    """What a buffer's (nbytes,) uint8 says, in its shape."""
    is_bf16 = spec["dtype"] == "bf16"
    dtype = np.dtype("<u2" if is_bf16 else spec["dtype"])
    array = np.ndarray(spec["shape"], dtype, image, spec["offset"], spec["strides"])
    return (array.astype("<u4") << 16).view("<f4") if is_bf16 else array


def poison(spec: dict[str, Any], turn: int) -> int:
    word = POISONS[turn % len(POISONS)]
    if spec["dtype"] in ("f2", "bf16"):
        return word >> 16 & 0x8000 | 0x7FE0 | word >> 8 & 0x1F
    return word


def demand_written(spec: dict[str, Any], found: np.ndarray, turn: int) -> None:
    """Wrong where an output's (nbytes,) uint8 still has the turn's poison."""
    if spec["dtype"] == "u1" or spec["role"] != "out" or spec["fill"] is not None:
        return
    bits = np.dtype("<u2" if spec["dtype"] in ("f2", "bf16") else "<u4")
    if spec["dtype"] not in ("f2", "bf16", "f4"):
        return
    array = np.ndarray(spec["shape"], bits, found, spec["offset"], spec["strides"])
    if count := int(np.count_nonzero(array == poison(spec, turn))):
        raise Wrong(f"FAIL: {count} of {array.size} outputs never written: {spec['name']}")


def start(module: Any, launch: dict[str, Any], buffers: dict[str, Buffer], order: int, number: int) -> None:
    """One launch to its end."""
    words = [word(arg, buffers).ljust(8, b"\0") for arg in launch["args"]]
    slots = ctypes.create_string_buffer(b"".join(words), 8 * max(1, len(words)))
    module.farm_pool.restype = ctypes.c_void_p
    request = Launch(
        call=entry(module, launch["entry"], len(words)),
        slots=ctypes.cast(slots, ctypes.c_void_p),
        grid=tuple(launch["grid"]),
        block=tuple(launch["block"]),
        dynamic_bytes=launch["shared"],
        descending=order,
        workers=1,
        pool=pool(module),
    )
    if module.farm_launch(ctypes.byref(request)):
        raise Cannot("there is no memory for the stacks of the block's threads")
    if request.failed:
        raise Wrong(f"{fault(request.report, buffers)}, in launch {number}, {launch['entry']}")


POOL: list[int] = []  # the stacks, which all libraries of this process share


def pool(module: Any) -> int:
    if not POOL:
        POOL.append(module.farm_pool())
    return POOL[0]


def word(arg: list[Any], buffers: dict[str, Buffer]) -> bytes:
    sort, value = arg
    if sort == "buffer":
        return struct.pack("<Q", buffers[value].address + buffers[value].spec["offset"])
    return struct.pack(SCALARS[sort], value if sort[0] == "f" else int(value))


def entry(module: Any, name: str, arguments: int) -> int:
    """The address of a kernel's glue."""
    kernels, number = ctypes.pointer(Kernel.in_dll(module, "farm_kernels")), 0
    while kernels[number].name:
        if kernels[number].name.decode() == name:
            if kernels[number].count != arguments:
                raise Wrong(f"REJECT: {name} takes {kernels[number].count} arguments, got {arguments}")
            call: int = kernels[number].call
            return call
        number += 1
    raise Wrong(f"REJECT: the text has no entry named {name}")


def fault(report: Report, buffers: dict[str, Buffer]) -> str:
    text = report.text.decode(errors="replace")
    if report.kind != 1:
        return f"CRASH: {text}"
    near = next((b for b in buffers.values() if b.holds(report.address)), None)
    where = (
        f" near buffer {near.spec['name']}, {report.address - near.address} bytes from its start"
        if near
        else ""
    )
    return f"CRASH: wild {'write' if report.write == 1 else 'access'} at {report.address:#x}{where}{text}"


def compare(want: dict[str, Any], got: np.ndarray) -> float:
    """The largest error over its limit; Wrong where one is above 1."""
    right, limit, value = want["want"], want["limit"], got.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(value - right)
        ratio = np.where(error == 0, 0.0, error / limit)
    same = (np.isnan(value) == np.isnan(right)) & (np.isinf(value) == np.isinf(right))
    same &= ~np.isinf(right) | (np.sign(value) == np.sign(right))
    ratio = np.where(same, np.where(np.isfinite(right), ratio, 0.0), np.where(np.isinf(limit), 0.0, np.inf))
    bad = int(np.count_nonzero(ratio > 1))
    if bad:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
        figures = f"got {got[at]:.9g}, want {right[at]:.9g}, limit {limit[at]:.3g}"
        outside = f"({bad} of {ratio.size} outside)"
        raise Wrong(f"FAIL: element {at} of {want['buffer']} in {want['kernel']}: {figures} {outside}")
    return float(ratio.max(initial=0.0))


WAYS: dict[str, Way] = {"host": Way(libraries, execute)}
