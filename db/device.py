"""Boards as their workers describe them: one row a board, one fingerprint for every state it was seen in.

see(s, device, now_us)            # at a hello, and for every line that names it
devices(s) -> tuple[DeviceRow, ...]
states(s, slugs) -> {slug: ((when first seen, Device), ...)}
rented(s, slugs) -> {slug, …}
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import capability, fingerprint
from db.tables import device as device_table
from kernels import codec
from kernels.model import Device

STATE = ("device_class", "name", "uuid", "fingerprint_digest", "last_seen_us")
LAST = sa.select(
    device_table.c.fingerprint_digest, device_table.c.first_seen_us, device_table.c.last_seen_us
).where(device_table.c.slug == sa.bindparam("slug"))
THIS = sa.update(device_table).where(device_table.c.slug == sa.bindparam("which"))
SEEN = THIS.values(last_seen_us=sa.bindparam("seen_us"))
# An old bundle may arrive late: what a board is like now is told by the newest sighting.
NEWER = THIS.where(device_table.c.last_seen_us <= sa.bindparam("seen_us")).values(
    {name: sa.bindparam(f"new_{name}") for name in STATE}
)
EARLIER = THIS.where(device_table.c.first_seen_us > sa.bindparam("seen_us"))
EARLIER = EARLIER.values(first_seen_us=sa.bindparam("seen_us"))


@dataclass(frozen=True)
class DeviceRow:
    """A board, as it described itself last."""

    device: Device
    first_seen_us: int
    last_seen_us: int


def see(s: Session, device: Device, now_us: int) -> None:
    """Notes that the board was here and what it was like."""
    see_all(s, [(device, now_us)])


def see_all(s: Session, sightings: Iterable[tuple[Device, int]]) -> None:
    """As `see`, for the devices of many lines, each with the time at which it was seen."""
    last: dict[str, tuple[Device, int]] = {}
    for device, seen_us in sightings:
        _, latest_us = last.get(device.fingerprint_digest, (device, seen_us))
        last[device.fingerprint_digest] = device, max(seen_us, latest_us)
    for device, seen_us in last.values():
        _see(s, device, seen_us)


def devices(s: Session) -> tuple[DeviceRow, ...]:
    """Every board ever seen, by class and slug."""
    columns = (fingerprint.c.device_json, device_table.c.first_seen_us, device_table.c.last_seen_us)
    query = (
        sa.select(*columns)
        .join(fingerprint, fingerprint.c.digest == device_table.c.fingerprint_digest)
        .order_by(device_table.c.device_class, device_table.c.slug)
    )
    return tuple(
        DeviceRow(codec.decode(Device, json.loads(text)), first, last)
        for text, first, last in s.execute(query)
    )


def states(s: Session, slugs: Iterable[str]) -> dict[str, tuple[tuple[int, Device], ...]]:
    """What boards were like from time to time: when each state was first seen, the earliest first."""
    columns = (fingerprint.c.device, fingerprint.c.first_seen_us, fingerprint.c.device_json)
    query = sa.select(*columns).where(fingerprint.c.device.in_(sorted(slugs)))
    found: defaultdict[str, list[tuple[int, Device]]] = defaultdict(list)
    for slug, seen_us, text in s.execute(query.order_by(fingerprint.c.first_seen_us)):
        found[slug].append((seen_us, codec.decode(Device, json.loads(text))))
    return {slug: tuple(known) for slug, known in found.items()}


def newest(s: Session, slug: str) -> Device:
    """The board of that slug, in the state it was seen in last."""
    query = (
        sa.select(fingerprint.c.device_json)
        .join(device_table, fingerprint.c.digest == device_table.c.fingerprint_digest)
        .where(device_table.c.slug == slug)
    )
    return codec.decode(Device, json.loads(s.execute(query).scalar_one()))


def rented(s: Session, slugs: Iterable[str]) -> set[str]:
    """Those of the boards that have a cell which rests on lines that a token brought."""
    brought = sa.exists().where(capability.c.device == device_table.c.slug, capability.c.trust == "rented")
    query = sa.select(device_table.c.slug).where(device_table.c.slug.in_(sorted(slugs)), brought)
    return set(s.execute(query).scalars())


def _see(s: Session, device: Device, seen_us: int) -> None:
    digest = device.fingerprint_digest
    row = s.execute(LAST, {"slug": device.slug}).first()
    if row and row.fingerprint_digest == digest and row.first_seen_us <= seen_us:
        if row.last_seen_us < seen_us:
            s.execute(SEEN, {"which": device.slug, "seen_us": seen_us})
        return
    board = {
        "slug": device.slug,
        "device_class": device.device_class,
        "name": device.name,
        "uuid": device.uuid,
        "fingerprint_digest": digest,
        "last_seen_us": seen_us,
    }
    insert_new(s, device_table, [board | {"first_seen_us": seen_us}])
    which = {"which": device.slug, "seen_us": seen_us}
    s.execute(NEWER, which | {f"new_{name}": board[name] for name in STATE})
    s.execute(EARLIER, which)
    state = {
        "digest": digest,
        "device": device.slug,
        "device_json": codec.canonical(device),
        "first_seen_us": seen_us,
    }
    insert_new(s, fingerprint, [state])
