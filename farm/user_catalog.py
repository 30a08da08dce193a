"""A user's catalog on the command line: read, checked, searched, and kept where a child process finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernels import registry
from kernels.declared import catalog
from kernels.declared.catalog import Catalog
from workers import packs


@contextmanager
def searching(folder: str | None) -> Iterator[Catalog | None]:
    """While in it, the kernels of a catalog's folder are found beside the farm's own; without one, nothing.

    UsageError, with the first mistake's file and line, where anything in it is wrong.
    """
    if not folder:
        yield None
        return
    found = catalog.load(packs.read(Path(folder)))
    with registry.searching(found.kernels):
        yield found


def address_of(found: Catalog | None, kernel_id: str) -> str:
    """The address of the catalog that a kernel is in, kept for child processes; empty for the farm's own."""
    if found is None or kernel_id not in found.kernels:
        return ""
    packs.keep(found.pack, packs.store())
    return found.pack.address
