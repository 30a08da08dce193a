"""Tells whether `kernels`, `workers` and `db` are this project's: other packages go by these names."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("kernels", "workers", "db")
MARK = 'OWNER = "kernel-farm"'
REMEDY = "use the checkout's ./run, or an install of its own: pipx install . in the checkout"


def complaint(home: Path = Path(__file__).parents[1]) -> str:
    """One line about the first package that isn't ours, with the remedy; empty if all are.

    Nothing is imported: a foreign package's code is not run to find out what it is.
    """
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            return f"the package {name!r} of the kernel farm is missing beside {home / 'farm'}; {REMEDY}"
        origin = Path(spec.origin)
        if origin.parent != home / name or MARK not in origin.read_text(encoding="utf8"):
            return f"{origin.parent} is another project's {name!r}, not the kernel farm's; {REMEDY}"
    return ""


def version() -> str:
    """The installed version of the farm."""
    try:
        return metadata.version("kernel-farm")
    except metadata.PackageNotFoundError:
        return "0+checkout"
