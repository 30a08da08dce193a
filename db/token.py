"""Workers' tokens for the gateway: only their digests are kept, each with a scope and an end.

create(s, name, devices=…, now_us=…, expires_us=…) -> secret      # shown once, never stored
tokens(s) -> tuple[TokenRow, ...] · find(s, secret, now_us) -> TokenRow · revoke(s, name, now_us)
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.session import Session
from db.tables import token
from kernels.errors import FarmError, UsageError

PREFIX = "farm_"  # lets people and scanners see what a leaked string is
SECRET_BYTES = 32


class Refused(FarmError):
    """A token that doesn't let anybody in; the message doesn't say more than its bearer may know."""


@dataclass(frozen=True)
class TokenRow:
    """A token as it can be shown; its secret is known to its worker alone."""

    id: int
    name: str
    devices: str  # glob over class, slug and UUID
    created_us: int
    expires_us: int
    revoked_us: int | None
    used_us: int | None  # when it last said hello

    def state(self, now_us: int) -> str:
        """valid, expired or revoked."""
        if self.revoked_us is not None:
            return "revoked"
        return "expired" if self.expires_us <= now_us else "valid"


def create(s: Session, name: str, *, devices: str, now_us: int, expires_us: int) -> str:
    """Makes a token and returns its secret; UsageError where the name is taken."""
    taken = sa.select(token.c.id).where(token.c.name == name)
    if s.execute(taken).first() is not None:
        raise UsageError(f"a token named {name!r} is there already; choose another name")
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    row = {"name": name, "sha256": _digest(secret), "devices": devices}
    s.execute(sa.insert(token).values(**row, created_us=now_us, expires_us=expires_us))
    return secret


def tokens(s: Session) -> tuple[TokenRow, ...]:
    """Every token, oldest first."""
    return tuple(TokenRow(*row) for row in s.execute(_rows().order_by(token.c.id)))


def find(s: Session, secret: str, now_us: int) -> TokenRow:
    """The valid token with that secret; Refused where there is none, or where it has ended."""
    found = s.execute(_rows().where(token.c.sha256 == _digest(secret))).first()
    row = None if found is None else TokenRow(*found)
    if row is None or row.state(now_us) != "valid":
        state = "unknown" if row is None else row.state(now_us)
        raise Refused(f"the token is {state}; ask for a new one (farm token new)")
    return row


def row_of(s: Session, token_id: int) -> TokenRow:
    """A token that is known to be there."""
    return TokenRow(*s.execute(_rows().where(token.c.id == token_id)).one())


def used(s: Session, token_id: int, now_us: int) -> None:
    """Notes that a worker has said hello with it."""
    s.execute(sa.update(token).where(token.c.id == token_id).values(used_us=now_us))


def revoke(s: Session, name: str, now_us: int) -> None:
    """Ends a token at once; UsageError names the ones there are."""
    mine = token.c.name == name
    ending = sa.update(token).where(mine, token.c.revoked_us.is_(None)).values(revoked_us=now_us)
    if s.execute(ending).rowcount:
        return
    if s.execute(sa.select(token.c.id).where(mine)).first() is None:
        there = ", ".join(row.name for row in tokens(s)) or "none"
        raise UsageError(f"no token named {name!r}; there are {there}")


def _rows() -> sa.Select[Any]:
    return sa.select(*(token.c[name] for name in TokenRow.__dataclass_fields__))


def _digest(secret: str) -> str:
    """A secret of 32 random bytes needs no salt and no slow hash: it can't be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()
