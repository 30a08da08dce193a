"""Bugs that people linked to cells: where the story of a bad verdict is told.

link(s, subject, url, now_us) -> Bug      # linking an address again changes nothing
bugs(s) -> tuple[Bug, ...]                # newest first
unlink(s, bug_id) -> bool
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from urllib.parse import urlsplit

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import bug
from kernels.errors import UsageError

LONGEST = 500  # characters of an address
SCHEMES = ("https", "http")


@dataclass(frozen=True)
class Subject:
    """What a bug is about: a cell of a device class, whatever the source."""

    device_class: str
    backend: str
    op: str
    kernel: str
    kind: str
    build: str = ""  # empty: every build


SUBJECT = tuple(Subject.__dataclass_fields__)


@dataclass(frozen=True)
class Bug:
    """A linked address."""

    id: int
    subject: Subject
    url: str  # http or https
    linked_us: int

    def is_about(self, cell: Subject) -> bool:
        """Whether it is that cell's, or that of all its builds."""
        builds = ("", cell.build) if cell.build else (self.subject.build,)
        return astuple(self.subject)[:-1] == astuple(cell)[:-1] and self.subject.build in builds


def link(s: Session, subject: Subject, url: str, now_us: int) -> Bug:
    """Links an address to a cell; UsageError where it is no web address."""
    _demand_web(url)
    row = dict(zip(SUBJECT, astuple(subject), strict=True)) | {"url": url}
    insert_new(s, bug, [row | {"linked_us": now_us}])
    return next(one for one in bugs(s) if (one.subject, one.url) == (subject, url))


def unlink(s: Session, bug_id: int) -> bool:
    """Takes a link away; False where there is none."""
    return s.execute(sa.delete(bug).where(bug.c.id == bug_id)).rowcount == 1


def bugs(s: Session) -> tuple[Bug, ...]:
    """Every link, newest first."""
    columns = (bug.c.id, bug.c.url, bug.c.linked_us, *(bug.c[name] for name in SUBJECT))
    rows = s.execute(sa.select(*columns).order_by(bug.c.id.desc()))
    return tuple(Bug(row[0], Subject(*row[3:]), row[1], row[2]) for row in rows)


def _demand_web(url: str) -> None:
    """A page makes a link of it: nothing but a plain web address may get there."""
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in SCHEMES and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_web = False
    if not is_web or not url.isprintable() or " " in url:
        raise UsageError(f"{url[:80]!r} is no web address; write https://HOST/…")
    if len(url) > LONGEST:
        raise UsageError(f"an address of {len(url)} characters; {LONGEST} are the most")
