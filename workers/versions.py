"""The versions that belong to a piece of evidence."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from kernels import OWNER


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """(package, version), the farm's own first."""
    packages = (("farm", OWNER), ("numpy", "numpy"), ("gguf", "gguf"))
    known = tuple((name, _version(distribution)) for name, distribution in packages)
    return (*known, ("python", platform.python_version()))


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "checkout"  # run by a Python that has only its dependencies installed
