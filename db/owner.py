"""Whose boards are: the farm's own, a token's, or nobody's yet; who isn't their owner can't speak for them.

refusal(s, slug, token_id, now_us) -> str      # why the token's worker may not; empty if it may
note(s, slug, token_id)                        # who speaks for it; 0 for a worker that came by another road
"""

from __future__ import annotations

import sqlalchemy as sa

from db import token as tokens
from db.session import Session
from db.tables import device


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
