"""Users' catalogs by their address: whole, as one blob each, with the kernels that are in them.

put(s, StoredPack(…), now_us)     get(s, address) -> bytes      newest(s) -> {kernel id: address}
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import sqlalchemy as sa

from db.fit import is_text
from db.session import Session, insert_new
from db.tables import blob, pack
from kernels.errors import FarmError


@dataclass(frozen=True)
class StoredPack:
    """A catalog as it travels; its address is the SHA-256 (hex) of its content."""

    address: str
    digest: str  # without names and descriptions
    kernels: tuple[str, ...]  # op/name
    content: bytes


def put(s: Session, stored: StoredPack, now_us: int) -> None:
    """Stores a catalog once; the time says which of two catalogs with one kernel came later."""
    insert_new(s, blob, [{"sha256": stored.address, "content": stored.content}])
    row = {"digest": stored.digest, "kernels_json": json.dumps(sorted(stored.kernels)), "stored_us": now_us}
    insert_new(s, pack, [row | {"address": stored.address}])
    s.execute(sa.update(pack).where(pack.c.address == stored.address).values(stored_us=now_us))


def get(s: Session, address: str) -> bytes:
    """A catalog's content; FarmError where it isn't here or isn't what it was."""
    query = sa.select(blob.c.content).where(blob.c.sha256 == address)
    content = s.execute(query).scalar() if is_text(address) else None
    if content is None:
        raise FarmError(f"no catalog {address[:12]} in this database; submit with --catalog stores one")
    if hashlib.sha256(content).hexdigest() != address:
        raise FarmError(f"catalog {address[:12]} is damaged in this database; restore it from a backup")
    return bytes(content)


def newest(s: Session) -> dict[str, str]:
    """Every kernel of a stored catalog, and the address of the newest catalog that has it."""
    query = sa.select(pack.c.address, pack.c.kernels_json).order_by(pack.c.stored_us, pack.c.address)
    return {kernel: address for address, kernels in s.execute(query) for kernel in json.loads(kernels)}
