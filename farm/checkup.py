"""What this machine can and can't do for the farm, and how to change that."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa

from farm import own
from kernels.errors import FarmError, UsageError
from kernels.model import Device
from workers import backend
from workers.backend import Unavailable
from workers.exam import ask, pressed
from workers.isolate import Isolated
from workers.machine import UNTOLD_BYTES, cpu_name, free_bytes, usable_cores
from workers.state import leaving_nothing, state_folder

PYTHONS = ((3, 11), (3, 14))  # from, and below
MEMORY_GB = 3.0  # the peak of a campaign of everything
DISK_GB = 1.0  # compile cache, database and spool
WEB = {  # the extra `web`: modules, and what installs them
    "fastapi": "fastapi", "jinja2": "jinja2", "multipart": "python-multipart", "plotly": "plotly",
    "uvicorn": "uvicorn",
}  # fmt: skip
CUPYS = ("cupy-cuda12x", "cupy-cuda13x")  # of the extras `gpu` and `gpu13`
NEEDED_BACKEND = "host"  # runs every kernel without a GPU


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    LACKING = "lacking"  # something works less well or not at all; the rest does
    MISSING = "missing"  # needed


@dataclass(frozen=True)
class Check:
    """One thing looked at; `remedy` is empty where nothing needs doing."""

    name: str
    state: State
    found: str
    remedy: str = ""


def examine(url: str) -> tuple[Check, ...]:
    """Every check, in the order in which a person would look."""
    return (
        python(sys.version_info[:2]),
        packages(),
        ray(),
        *backends(),
        nvrtc(),
        dashboard(),
        database(url),
        cores(usable_cores()),
        memory(),
        disk(state_folder()),
    )


def python(version: tuple[int, ...]) -> Check:
    found = ".".join(map(str, version))
    if PYTHONS[0] <= version < PYTHONS[1]:
        return Check("python", State.OK, found)
    return Check("python", State.MISSING, found, "install Python 3.11, 3.12 or 3.13; ./run finds it")


def packages() -> Check:
    """Whether kernels, workers and db are this project's own."""
    if complaint := own.complaint():
        return Check("packages", State.MISSING, complaint, own.REMEDY)
    versions = ", ".join(f"{name} {version_of(name)}" for name in ("numpy", "gguf", "sqlalchemy"))
    return Check("packages", State.OK, f"kernels, workers and db are ours; {versions}")


def ray(version: Callable[[str], str] | None = None) -> Check:
    """Not imported: that takes seconds."""
    found = (version or version_of)("ray")
    if found:
        return Check("ray", State.OK, found)
    return Check("ray", State.LACKING, "not installed", "pip install 'ray>=2.50', or use farm submit --local")


def backends() -> Iterator[Check]:
    """One check per backend of the catalog; the one that runs CUDA text on a CPU is needed."""
    for name in backend.names():
        try:
            devices = backend.backend(name).devices()
        except Unavailable as error:
            because = str(error).removeprefix(f"{name} is unavailable because ")
            found, _, remedy = because.partition("; ")
            state = State.MISSING if name == NEEDED_BACKEND else State.LACKING
            yield Check(f"backend {name}", state, found, remedy)
        else:
            found = ", ".join(map(described, devices))
            wrong = fault_of(name, devices[0]) if name == NEEDED_BACKEND else ""
            remedy = "name another compiler, as in CXX=clang++, and report this" if wrong else ""
            state = State.MISSING if wrong else State.OK
            yield Check(f"backend {name}", state, f"{found}; {wrong}" if wrong else found, remedy)


def fault_of(name: str, device: Device) -> str:
    """What a backend has wrong of a kernel that fills every register; empty if it is right."""
    try:
        with leaving_nothing(), closing(Isolated()) as slot:
            return ask(pressed(), slot, device, name)
    except (FarmError, OSError) as error:
        return f"can't be tried: {error}"


def described(device: Device) -> str:
    """`rtx-3060 (sm_86, 12.0 GiB, driver 575.57.08)`; the class alone where it doesn't describe itself."""
    words = own_words(device)
    return f"{device.device_class} ({words})" if words else device.device_class


def own_words(device: Device) -> str:
    """What a board says of itself, in short; empty for a processor and for an architecture."""
    told = dict(device.fingerprint)
    if "memory_bytes" not in told:
        return ""
    memory = f"{int(told['memory_bytes']) / 2**30:.1f} GiB"
    driver = told.get("driver", "")
    return ", ".join(filter(None, (told.get("sm", ""), memory, driver and f"driver {driver}")))


def has_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def nvrtc(version: Callable[[str], str] | None = None, driver: bool | None = None) -> Check:
    """What compiling for GPUs, and running on them, needs; there is no GPU in most machines."""
    has_version = version or version_of
    cupy = next(filter(has_version, CUPYS), CUPYS[0])
    has = {name: bool(has_version(name)) for name in ("cuda-bindings", cupy)}
    driver = has_driver() if driver is None else driver
    found = f"{'an' if driver else 'no'} NVIDIA driver, " + ", ".join(
        f"{name} {'installed' if there else 'not installed'}" for name, there in has.items()
    )
    if all(has.values()) and driver:
        return Check("gpu", State.OK, found)
    extra = "gpu" if driver else "nvrtc"
    enough = all(has.values()) if driver else has["cuda-bindings"]
    remedy = "" if enough else f"./run pip install -e '.[{extra}]'"
    if not driver:
        remedy = "; ".join(
            filter(None, ("to run on GPUs, go where one is", remedy and f"to compile only, {remedy}"))
        )
    return Check("gpu", State.LACKING, found, remedy)


def dashboard(is_there: Callable[[str], bool] = lambda name: find_spec(name) is not None) -> Check:
    """What `farm status --web` and `farm gateway` are made of."""
    if lacking := [distribution for name, distribution in WEB.items() if not is_there(name)]:
        found = f"{', '.join(lacking)} not installed"
        return Check("dashboard", State.LACKING, found, "./run pip install -e '.[web]'")
    return Check("dashboard", State.OK, "farm status --web serves it")


def database(url: str) -> Check:
    """Whether rows can be written, and a database that is there is a sound one; makes nothing."""
    # Imported late: what is asked before needs no database.
    from db.session import parse

    try:
        address = parse(url)
    except UsageError as error:
        return Check("database", State.MISSING, str(error), "name another with --db, or leave it out")
    if address.drivername != "sqlite":
        return _server(address)
    path = Path(str(address.database)).absolute()
    if path.is_dir():
        return Check("database", State.MISSING, f"{path} is a folder", "name a file: sqlite:///PATH")
    folder = next(parent for parent in path.parents if parent.exists())
    if path.exists() and not os.access(path, os.W_OK):
        return Check("database", State.MISSING, f"{path} can't be written", f"chmod u+w {path}")
    if reason := _why_closed(folder):
        return Check("database", State.MISSING, f"{folder}: {reason}", "name another with --db")
    if not path.exists():
        return Check("database", State.OK, f"none at {path}; farm submit makes it")
    return _opens(address, str(path), "restore it from a backup, or name another with --db")


def _why_closed(folder: Path) -> str:
    """Why no file can be made in a folder; empty if one can. The file tried is gone at once."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _server(address: sa.URL) -> Check:
    from db.session import shown  # late, as above

    if find_spec("psycopg") is None:
        return Check(
            "database", State.MISSING, f"no driver for {shown(address)}", "./run pip install -e '.[postgres]'"
        )
    return _opens(address, shown(address), "start the server, or name another with --db")


def _opens(address: sa.URL, shown: str, remedy: str) -> Check:
    """Whether a database that is there is a farm's, sound, and of a schema known here."""
    # Imported late: a checkup of a machine without a database does without it.
    from db.session import open_existing

    try:
        open_existing(address.render_as_string(hide_password=False)).close()
    except FarmError as error:
        return Check("database", State.MISSING, str(error), remedy)
    return Check("database", State.OK, shown)


def cores(count: int) -> Check:
    return Check("cores", State.OK, f"{count} usable, {cpu_name()}")


def memory(free: Callable[[], int] = free_bytes) -> Check:
    """What is free now, in a container too; a campaign of everything peaks below MEMORY_GB."""
    free_now = free()
    if free_now >= UNTOLD_BYTES:
        return Check("memory", State.OK, "unknown: the system doesn't say")
    found = f"{free_now / 1e9:.1f} GB free"
    if free_now >= MEMORY_GB * 1e9:
        return Check("memory", State.OK, found)
    return Check("memory", State.LACKING, found, f"free {MEMORY_GB:g} GB, or submit fewer kinds at a time")


def disk(folder: Path, free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free) -> Check:
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free_gb = free(place) / 1e9
    found = f"{free_gb:.1f} GB free at {place}"
    if free_gb >= DISK_GB:
        return Check("disk", State.OK, found)
    return Check("disk", State.LACKING, found, f"free {DISK_GB:g} GB, or set FARM_STATE to another folder")


def version_of(distribution: str) -> str:
    """The installed version; empty where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
