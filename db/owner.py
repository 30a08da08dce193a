"""Whose boards are: the farm's own, a token's, or nobody's yet; who isn't their owner can't speak for them.

refusal(s, slug, token_id, now_us) -> str      # why the token's worker may not; empty if it may
crowded(s, device, token_id) -> str            # why its boards are too many; empty if they aren't
note(s, slug, token_id)                        # who speaks for it; 0 for a worker that came by another road
"""

from __future__ import annotations

import json

import sqlalchemy as sa

from db import token as tokens
from db.session import Session
from db.tables import device, fingerprint
from kernels.model import Device

# Of one token: a stranger who has it could fill the database with boards that aren't there.
MOST_STATES = 1024  # boards, and what each is like after another driver, compiler or class
MOST_CLASSES = 64  # each gets the jobs of every open campaign


def refusal(s: Session, slug: str, token_id: int, now_us: int) -> str:
    """Why a worker that came with that token may not speak for a board; empty if it may.

    A token that names the board itself is its operator's word. One that says `*`, or names a class, covers
    boards that are nobody else's: neither the farm's own nor those of a token that is still valid.
    """
    if not token_id:
        return ""
    mine = tokens.row_of(s, token_id)
    owner = "" if mine.devices.lower() == slug.lower() else _owner(s, slug, token_id, now_us)
    if not owner:
        return ""
    return (
        f"board {slug} is {owner}, and this token is for {mine.devices}; "
        f"farm token new NAME --device {slug} makes one that may speak for it"
    )


def crowded(s: Session, board: Device, token_id: int) -> str:
    """Why a board, or a state of one, that nobody knows yet is one too many; empty if it isn't."""
    known = sa.select(fingerprint.c.digest).where(fingerprint.c.digest == board.fingerprint_digest)
    if not token_id or s.execute(known).first():
        return ""
    its = sa.select(fingerprint.c.device_json).join(device, device.c.slug == fingerprint.c.device)
    states = s.execute(its.where(device.c.token_id == token_id)).scalars().all()
    classes = {json.loads(text)["device_class"] for text in states}
    too_many = ""
    if len(states) >= MOST_STATES:
        too_many = f"{len(states)} boards and states of boards"
    elif len(classes | {board.device_class}) > MOST_CLASSES:
        too_many = f"{len(classes)} classes"
    if not too_many:
        return ""
    return f"this token has spoken for {too_many}, and that is the most; farm token new makes another token"


def note(s: Session, slug: str, token_id: int) -> None:
    """Notes who speaks for a board; one that was ever the farm's own stays so."""
    this = sa.update(device).where(device.c.slug == slug)
    if token_id:
        other = device.c.token_id.is_distinct_from(token_id)
        s.execute(this.where(other).values(token_id=token_id))
    else:
        s.execute(this.where(~device.c.own).values(own=True))


def _owner(s: Session, slug: str, token_id: int, now_us: int) -> str:
    """Whose a board is, where it isn't this token's or free; no more than a stranger may know."""
    found = s.execute(sa.select(device.c.own, device.c.token_id).where(device.c.slug == slug)).first()
    if found is None:
        return ""
    if found.own:
        return "this farm's own"
    if found.token_id in (None, token_id) or tokens.row_of(s, found.token_id).state(now_us) != "valid":
        return ""
    return "another token's"
