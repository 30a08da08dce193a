"""How warm this machine's boards are, where it can tell: GPUs by NVML, the processor by its sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workers.machine import machine_id

HWMON = Path("/sys/class/hwmon")
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def celsius() -> dict[str, float]:
    """Degrees by a board's UUID; a board that tells nothing is left out."""
    return gpus(_nvml()) | processor()


def gpus(nvml: Any) -> dict[str, float]:
    """What NVML's Python module tells; None for a machine without it."""
    if nvml is None:
        return {}
    found: dict[str, float] = {}
    try:
        nvml.nvmlInit()
        for number in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
            found[name] = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    except nvml.NVMLError:  # no driver, or a board that won't say
        return found
    return found


def _nvml() -> Any:
    try:
        import pynvml  # comes with the extra `gpu`; most machines don't have it
    except ModuleNotFoundError:
        return None
    return pynvml


def processor(hwmon: Path = HWMON) -> dict[str, float]:
    """The warmest of the processor's own sensors."""
    degrees = [
        int(sensor.read_text(encoding="ascii")) / 1000
        for name in sorted(hwmon.glob("*/name"))
        if name.read_text(encoding="utf8").strip() in CPU_SENSORS
        for sensor in sorted(name.parent.glob("temp*_input"))
    ]
    return {machine_id(): max(degrees)} if degrees else {}
