"""Describes this machine's processor as a device: the board that the backends `twin` and `host` run on."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from kernels.model import Device

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
UNTOLD_KIB = 2**50
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def cpu_device() -> Device:
    """This machine's processor; one case per usable core may run at the same time."""
    device_class = f"cpu-{platform.machine().lower()}"
    identity = machine_id()
    return Device(
        slug=f"{device_class}-{identity[:8]}",
        device_class=device_class,
        name=cpu_name(),
        uuid=identity,
        slots=usable_cores(),
        fingerprint=(
            ("cpu", cpu_name()),
            ("cores", str(os.cpu_count() or 1)),
            ("os", f"{platform.system()} {platform.release()}"),
            ("libc", " ".join(platform.libc_ver()).strip() or "unknown"),
        ),
    )


def machine_id() -> str:
    """32 hex digits that stay the same on this machine; hashed: evidence must not publish the real id."""
    known = next((text for path in MACHINE_IDS if (text := _read(path).strip())), platform.node())
    return hashlib.sha256(f"kernel-farm {known}".encode()).hexdigest()[:32]


def usable_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """The processor as its vendor calls it, or its architecture where the system doesn't tell."""
    lines = (line.partition(":") for line in _read(CPUINFO).splitlines())
    named = (value.strip() for key, _, value in lines if key.strip() in ("model name", "Model"))
    return next(named, platform.processor() or platform.machine())


def free_bytes() -> int:
    """Memory that a process could still have without swapping; a very large number where nothing tells."""
    return _meminfo_bytes("MemAvailable")


def memory_bytes() -> int:
    """Memory that there is, or that this container may have; a very large number where nothing tells."""
    limit = _read(CGROUP_LIMIT).strip()
    return min(_meminfo_bytes("MemTotal"), int(limit) if limit.isdigit() else 1024 * UNTOLD_KIB)


def _meminfo_bytes(name: str) -> int:
    lines = (line.partition(":") for line in _read(MEMINFO).splitlines())
    return 1024 * next((int(value.split()[0]) for key, _, value in lines if key == name), UNTOLD_KIB)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8", errors="replace")
    except OSError:
        return ""
