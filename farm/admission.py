"""Which workers are taken in: of this version, fit to be stored, on a board that works and is theirs.

refusal(s, hello, catalog_digest) -> str        # only reads
admit(s, hellos, now_us) -> tuple[str, ...]     # why each may not speak for its board; notes those that may
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db import device, owner, token, trust
from db.session import Session
from farm.wire import misfit, mismatch
from workers.protocol import Hello


@dataclass(frozen=True)
class Joined:
    """What became of a hello."""

    refusal: str  # why not; empty where the worker is taken in
    campaign_id: int = 0  # the newest that knows its device


def refusal(s: Session, message: Hello, catalog_digest: str) -> str:
    """Why a worker isn't taken in, whoever speaks for its board; empty if it may be."""
    return mismatch(message, catalog_digest) or misfit(message) or _aside(s, message.device.slug)


def admit(s: Session, hellos: Sequence[Hello], now_us: int) -> tuple[str, ...]:
    """For each worker why it may not speak for its board; the boards of the others are noted."""
    for hello in hellos:
        if not unentitled(s, hello, now_us):
            device.see(s, hello.device, now_us)
            owner.note(s, hello.device.slug, hello.token_id)
            if hello.token_id:
                token.used(s, hello.token_id, now_us)
    # Asked once more: a later one of them may have taken a board from an earlier one.
    return tuple(unentitled(s, hello, now_us) for hello in hellos)


def unentitled(s: Session, hello: Hello, now_us: int) -> str:
    """Why a worker may not speak for its board; empty if it may."""
    reason = owner.refusal(s, hello.device.slug, hello.token_id, now_us)
    return reason or owner.crowded(s, hello.device, hello.token_id)


def _aside(s: Session, slug: str) -> str:
    """Why a board gets no work; empty if it may."""
    reason = trust.why_aside(s, slug)
    return f"set aside: {reason}; farm devices --readmit {slug}" if reason else ""
