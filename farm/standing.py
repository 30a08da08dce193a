"""What a person decides about a board: to give it no more jobs, or to let it work again."""

from __future__ import annotations

from collections.abc import Callable

from db import device, trust
from db.session import Session
from kernels.errors import UnknownName


def set_aside(s: Session, slug: str, now_us: int) -> str:
    """Gives a board no more jobs and doubts its lines; what that did, in a line."""
    _demand_known(s, slug)
    done = trust.set_aside(s, slug, "by hand", now_us)
    told = f"{done.suspect} lines suspect, {len(done.requeued)} jobs run again"
    return f"{slug} is set aside: {told}"


def readmit(s: Session, slug: str, now_us: int) -> str:
    """Lets a board that is set aside work again; UsageError for one that isn't."""
    _demand_known(s, slug)
    trust.readmit(s, slug, now_us)
    return f"{slug} may work again, after an exam"


def _demand_known(s: Session, slug: str) -> None:
    known = [row.device.slug for row in device.devices(s)]
    if slug not in known:
        raise UnknownName("board", slug, known)


# What a person may do to a board from afar.
ACTIONS: dict[str, Callable[[Session, str, int], str]] = {"set-aside": set_aside, "readmit": readmit}
