"""What NVML says of a machine's boards; any answer may be missing, as it is on old boards and under MIG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from workers.timed import BoardState

GRAPHICS_CLOCK, SM_CLOCK, MEMORY_CLOCK = 0, 1, 2  # nvmlClockType_t
DIE = 0  # nvmlTemperatureSensors_t
CORRECTED, UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
VOLATILE = 0  # nvmlEccCounterType_t: since the driver was loaded
BY_SINGLE_BITS, BY_DOUBLE_BITS = 0, 1  # nvmlPageRetirementCause_t
# NVML API Reference, nvmlClocksEventReasons: what keeps clocks down. An idle GPU (0x1) isn't held down.
THROTTLES = {
    0x2: "applications_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clock",
    0x200: "board_limit", 0x400: "reliability",
}  # fmt: skip
NO_DRIVER = "there is no NVIDIA driver"
COMPLAINTS = {
    9: "the NVIDIA driver isn't loaded; modprobe nvidia, or restart the machine",
    12: NO_DRIVER,  # NVML_ERROR_LIBRARY_NOT_FOUND
    18: "NVML and the NVIDIA driver are of different versions; restart the machine",
}


@dataclass(frozen=True)
class Facts:
    """A board, or a MIG instance, as NVML describes it; what it doesn't tell is None or empty."""

    uuid: str  # GPU-…, MIG-…
    name: str
    sm: int | None = None  # 86
    memory_bytes: int | None = None
    bus_bits: int | None = None
    multiprocessors: int | None = None  # told of MIG instances alone
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    power_cap_w: float | None = None
    ecc: bool | None = None
    retired_pages: int | None = None
    remapped_rows: int | None = None
    pcie_generation: int | None = None  # at most, of board and slot
    pcie_width: int | None = None
    mig_parent: str = ""  # UUID of the board that an instance is part of


@dataclass(frozen=True)
class System:
    """What NVML says of a machine."""

    driver: str  # 575.57.08; empty where it doesn't tell
    cuda: int | None  # 12090: the newest CUDA that the driver knows
    boards: tuple[Facts, ...]  # whole boards and MIG instances that can be used; in the order of the bus
    complaint: str = ""  # why there is nothing to tell


def read(nvml: Any) -> System:
    """Everything that can be told; a machine without a driver is a complaint and no error."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return System("", None, (), _why(error))
    driver = _ask(nvml, "nvmlSystemGetDriverVersion")
    cuda = _ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    return System(_text(driver), cuda, tuple(_boards(nvml)))


def state(nvml: Any, uuid: str) -> BoardState:
    """What a board is doing now; an instance is asked by the board that it is part of."""
    handle = handle_of(nvml, uuid)
    if handle is None:
        return BoardState()
    power = _ask(nvml, "nvmlDeviceGetPowerUsage", handle)
    cap = _ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    return BoardState(
        sm_clock_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, SM_CLOCK),
        memory_clock_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, MEMORY_CLOCK),
        temperature_c=_ask(nvml, "nvmlDeviceGetTemperature", handle, DIE),
        power_w=None if power is None else power / 1000,
        power_cap_w=None if cap is None else cap / 1000,
        throttled_by=_throttles(nvml, handle),
        ecc_uncorrected=_ask(nvml, "nvmlDeviceGetTotalEccErrors", handle, UNCORRECTED, VOLATILE),
        ecc_corrected=_ask(nvml, "nvmlDeviceGetTotalEccErrors", handle, CORRECTED, VOLATILE),
    )


def handle_of(nvml: Any, uuid: str) -> Any:
    """NVML's handle of a whole board, an instance's parent included; None where it knows none."""
    _ask(nvml, "nvmlInit")
    for board in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", board)
        if handle is None:
            continue
        names = [_uuid(nvml, handle), *(_uuid(nvml, part) for part in _instances(nvml, handle))]
        if uuid in names:
            return handle
    return None


def _boards(nvml: Any) -> Iterator[Facts]:
    for number in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", number)
        if handle is None:  # lost, or not this container's
            continue
        whole = _facts(nvml, handle)
        if _is_cut(nvml, handle):
            yield from (_part(nvml, part, whole) for part in _instances(nvml, handle))
        else:
            yield whole


def _is_cut(nvml: Any, handle: Any) -> bool:
    """Whether MIG is on: the board itself then runs nothing."""
    mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    return mode is not None and mode[0] == 1


def _instances(nvml: Any, handle: Any) -> Iterator[Any]:
    if not _is_cut(nvml, handle):
        return
    for number in range(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if part is not None:
            yield part


def _facts(nvml: Any, handle: Any) -> Facts:
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    cap = _ask(nvml, "nvmlDeviceGetPowerManagementLimit", handle)
    ecc = _ask(nvml, "nvmlDeviceGetEccMode", handle)
    rows = _ask(nvml, "nvmlDeviceGetRemappedRows", handle)
    return Facts(
        uuid=_uuid(nvml, handle),
        name=_text(_ask(nvml, "nvmlDeviceGetName", handle)),
        sm=None if capability is None else 10 * capability[0] + capability[1],
        memory_bytes=None if memory is None else int(memory.total),
        bus_bits=_ask(nvml, "nvmlDeviceGetMemoryBusWidth", handle),
        sm_clock_max_mhz=_ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, SM_CLOCK),
        memory_clock_max_mhz=_ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, MEMORY_CLOCK),
        power_cap_w=None if cap is None else cap / 1000,
        ecc=None if ecc is None else ecc[0] == 1,
        retired_pages=_retired(nvml, handle),
        remapped_rows=None if rows is None else rows[0] + rows[1],
        pcie_generation=_ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=_ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle),
    )


def _part(nvml: Any, handle: Any, whole: Facts) -> Facts:
    """An instance: clocks, power and errors are those of its board, which it shares."""
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    attributes = _ask(nvml, "nvmlDeviceGetAttributes", handle)
    name = _text(_ask(nvml, "nvmlDeviceGetName", handle))
    return Facts(
        uuid=_uuid(nvml, handle),
        name=name or f"{whole.name} MIG",
        sm=whole.sm,
        memory_bytes=None if memory is None else int(memory.total),
        multiprocessors=None if attributes is None else int(attributes.multiprocessorCount),
        sm_clock_max_mhz=whole.sm_clock_max_mhz,
        memory_clock_max_mhz=whole.memory_clock_max_mhz,
        power_cap_w=whole.power_cap_w,
        ecc=whole.ecc,
        retired_pages=whole.retired_pages,
        remapped_rows=whole.remapped_rows,
        pcie_generation=whole.pcie_generation,
        pcie_width=whole.pcie_width,
        mig_parent=whole.uuid,
    )


def _retired(nvml: Any, handle: Any) -> int | None:
    """Pages that errors took out of use, of both causes; boards since Ampere remap rows instead."""
    found = [
        _ask(nvml, "nvmlDeviceGetRetiredPages", handle, cause) for cause in (BY_SINGLE_BITS, BY_DOUBLE_BITS)
    ]
    return None if None in found else sum(map(len, found))


def _throttles(nvml: Any, handle: Any) -> tuple[str, ...] | None:
    mask = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    if mask is None:
        return None
    return tuple(name for bit, name in THROTTLES.items() if mask & bit)


def _uuid(nvml: Any, handle: Any) -> str:
    return _text(_ask(nvml, "nvmlDeviceGetUUID", handle))


def _ask(nvml: Any, call: str, *args: Any) -> Any:
    """An answer, or None where this driver or this board gives none."""
    with suppress(nvml.NVMLError, AttributeError):
        return getattr(nvml, call)(*args)
    return None


def _text(answer: Any) -> str:
    """Bindings before 11.5 gave bytes."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer or "")


def _why(error: Any) -> str:
    return COMPLAINTS.get(getattr(error, "value", 0), f"NVML doesn't answer ({error})")
