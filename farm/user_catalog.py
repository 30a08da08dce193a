"""Users' catalogs on the command line and in the database: read, searched, stored, and found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from db import pack as packs_of
from db.pack import StoredPack
from db.session import Session
from kernels import registry
from kernels.declared import catalog
from kernels.declared.catalog import Catalog
from kernels.declared.pack import Pack
from kernels.errors import FarmError
from kernels.op import Kernel
from workers import packs
from workers.packs import searching

__all__ = ["address_of", "kernels_at", "searching", "searching_stored", "store", "stored_kernels"]


def address_of(found: Catalog | None, kernel_id: str) -> str:
    """The address of the catalog that a kernel is in, kept for child processes; empty for the farm's own."""
    if found is None or kernel_id not in found.kernels:
        return ""
    packs.keep(found.pack, packs.store())
    return found.pack.address


def store(s: Session, pack: Pack, now_us: int) -> None:
    """Puts a catalog into the database, from where workers fetch it."""
    kernels = tuple(catalog.load(pack).kernels)
    packs_of.put(s, StoredPack(pack.address, pack.digest, kernels, pack.to_bytes()), now_us)


@contextmanager
def searching_stored(s: Session) -> Iterator[None]:
    """While in it, every kernel of a stored catalog is found, as the newest catalog that has it says."""
    with registry.searching(stored_kernels(s)):
        yield


def kernels_at(s: Session, address: str) -> Mapping[str, Kernel]:
    """The kernels of one stored catalog by their ids; none for the empty address, the farm's own."""
    return catalog.load(Pack.from_bytes(packs_of.get(s, address), address)).kernels if address else {}


def stored_kernels(s: Session) -> Mapping[str, Kernel]:
    """Kernel id to the newest stored kernel of that name; those that this farm can't read are left out."""
    newest = packs_of.newest(s)
    found: dict[str, Kernel] = {}
    for address in dict.fromkeys(newest.values()):
        try:
            kernels = kernels_at(s, address)
        except FarmError:  # of another version of the farm: its cells are stale
            continue
        found |= {name: kernel for name, kernel in kernels.items() if newest[name] == address}
    return {name: kernel for name, kernel in found.items() if name not in registry.built_in()}
