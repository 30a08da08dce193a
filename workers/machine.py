"""Describes this machine's processor as a device: the board that the backends `twin` and `host` run on."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernels.model import Device
from workers.rented import rented

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
MACHINE = "FARM_MACHINE"  # in the environment: a name, for machines that have one id from one image
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
UNTOLD_BYTES = 2**60  # a very large number
CGROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Version:
    """Where one version of Linux' control groups says what a group of processes may have of memory, and has.

    Linux, Documentation/admin-guide: cgroup-v2.rst and cgroup-v1/memory.rst.
    """

    folder: str  # below CGROUPS
    controller: str  # as OWN_GROUPS names it
    limit: str
    usage: str  # with the files that it keeps in memory, which it can let go
    files: tuple[str, ...]  # keys of memory.stat for these


VERSIONS = (
    Version("", "", "memory.max", "memory.current", ("inactive_file", "active_file")),
    Version(
        "memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)  # fmt: skip


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
            *rented(os.environ),
        ),
    )


def machine_id() -> str:
    """32 hex digits that stay the same on this machine; hashed: evidence must not publish the real id."""
    known = next((text for path in MACHINE_IDS if (text := _read(path).strip())), platform.node())
    return _hashed(" ".join(filter(None, (known, os.environ.get(MACHINE, "").strip()))))


def boot_id() -> str:
    """32 hex digits of this host until its system starts again, the same in its containers; empty: unknown.

    They tell two hosts apart that have one machine id.
    """
    known = _read(BOOT_ID).strip()
    return _hashed(known) if known else ""


def _hashed(known: str) -> str:
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
    """Memory that a process could still have without swapping; UNTOLD_BYTES where nothing tells."""
    rooms = (limit - _used_bytes(version, group) for version, group, limit in _limited())
    return max(0, min([_meminfo_bytes("MemAvailable"), *rooms]))


def memory_bytes() -> int:
    """Memory that there is, or that this container may have; UNTOLD_BYTES where nothing tells."""
    return min([_meminfo_bytes("MemTotal"), *(limit for _, _, limit in _limited())])


def _limited() -> Iterator[tuple[Version, Path, int]]:
    """The groups around this process that have a limit, which is its bytes: its own and those above it.

    In a container the root is its own group, and what OWN_GROUPS says may not be there.
    """
    lines = [line.split(":", 2) for line in _read(OWN_GROUPS).splitlines() if line.count(":") >= 2]
    for version in VERSIONS:
        named = (path for _, controllers, path in lines if version.controller in controllers.split(","))
        own = PurePosixPath(next(named, "").strip("/"))
        for group in (CGROUPS / version.folder / one for one in (own, *own.parents)):
            limit = _read(group / version.limit).strip()
            if limit.isdigit():
                yield version, group, int(limit)


def _used_bytes(version: Version, group: Path) -> int:
    """What a group's processes hold and can't let go."""
    used = _read(group / version.usage).strip()
    lines = (line.partition(" ") for line in _read(group / "memory.stat").splitlines())
    files = sum(int(value) for key, _, value in lines if key in version.files and value.isdigit())
    return max(0, int(used) - files) if used.isdigit() else 0


def _meminfo_bytes(name: str) -> int:
    lines = (line.partition(":") for line in _read(MEMINFO).splitlines())
    return next((1024 * int(value.split()[0]) for key, _, value in lines if key == name), UNTOLD_BYTES)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8", errors="replace")
    except OSError:
        return ""
