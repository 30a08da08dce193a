"""Asks CUDA's driver which boards this process may see, without CuPy and without a context."""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from dataclasses import dataclass
from typing import Any

from kernels import codec
from workers.cuda.errors import CudaError

NAMES = ("libcuda.so.1", "libcuda.so")
# CUDA Driver API, CUdevice_attribute.
MAJOR, MINOR, MULTIPROCESSORS, L2_BYTES, BUS_BITS = 75, 76, 16, 38, 37
NO_DEVICE = 100
OLDEST = 11040  # that has all calls made here: cuDeviceGetUuid_v2 came with CUDA 11.4, driver 470


@dataclass(frozen=True)
class Seen:
    """A board as the driver describes it."""

    uuid: str  # 8-4-4-4-12 hex digits, a MIG instance's own; the vendor's tools write GPU- or MIG- before it
    name: str
    sm: int  # 86
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    bus_bits: int


@dataclass(frozen=True)
class Answers:
    """What the driver says: boards in its own order, under the mask that this process was given."""

    version: int  # 12080: the newest CUDA that it knows
    boards: tuple[Seen, ...]


def library() -> Any:
    """The driver's library; OSError where there is none."""
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


def answers(cuda: Any = None) -> Answers:
    """What the driver says of this process; CudaError with its code, OSError where there is no driver.

    cuInit reads CUDA_VISIBLE_DEVICES once: what is changed after that has no effect. A driver older than
    OLDEST tells its version alone.
    """
    cuda = library() if cuda is None else cuda
    version = _number(cuda, "cuDriverGetVersion")
    code = 0 if version < OLDEST else cuda.cuInit(0)
    if code == NO_DEVICE or version < OLDEST:
        return Answers(version, ())
    _demand(code, "cuInit")
    count = _number(cuda, "cuDeviceGetCount")
    return Answers(version, tuple(_seen(cuda, at) for at in range(count)))


def _seen(cuda: Any, ordinal: int) -> Seen:
    device = _number(cuda, "cuDeviceGet", ordinal)
    raw, name, memory = (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    _demand(cuda.cuDeviceGetUuid_v2(raw, device), "cuDeviceGetUuid_v2")
    _demand(cuda.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    _demand(cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device), "cuDeviceTotalMem_v2")
    major, minor, multiprocessors, l2_bytes, bus_bits = (
        _number(cuda, "cuDeviceGetAttribute", which, device)
        for which in (MAJOR, MINOR, MULTIPROCESSORS, L2_BYTES, BUS_BITS)
    )
    return Seen(
        str(uuid.UUID(bytes=bytes(raw))), name.value.decode(errors="replace"), 10 * major + minor,
        memory.value, multiprocessors, l2_bytes, bus_bits,
    )  # fmt: skip


def _number(cuda: Any, call: str, *args: int) -> int:
    found = ctypes.c_int()
    _demand(getattr(cuda, call)(ctypes.byref(found), *args), call)
    return found.value


def _demand(code: int, call: str) -> None:
    if code:
        raise CudaError(code, call)


def bare(name: str) -> str:
    """A UUID without what the vendor's tools write before it, in small letters."""
    return name.lower().removeprefix("gpu-").removeprefix("mig-")


def told() -> str:
    """What `python -m workers.cuda.libcuda` prints: the answers as JSON, or why there are none."""
    try:
        return json.dumps({"answers": codec.encode(answers())})
    except CudaError as error:
        return json.dumps({"code": error.code, "call": error.call})
    except OSError:
        return json.dumps({"code": -1, "call": NAMES[0]})


if __name__ == "__main__":
    sys.stdout.write(told())
