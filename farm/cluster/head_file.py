"""What a running head leaves in the state folder, so that other commands find it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from db.session import Database
from kernels import codec
from kernels.errors import FarmError
from workers.state import state_folder

NAME = "head.json"
ENDED = ("Z", "X")  # a process's states in /proc once it has ended


@dataclass(frozen=True)
class HeadFile:
    """A head's supervisor, and how others reach its Ray."""

    pid: int
    born: int  # the process's start in clock ticks: a pid may be given to another one
    address: str  # HOST:PORT
    ports: tuple[int, ...]  # of Ray, that listened on every interface when it was ready
    database: str  # without a password
    gateway: str = ""  # its URL; empty where there is none


def label_of(database: Database) -> str:
    """The database's absolute address without its password: equal where two commands mean the same one."""
    url = database.engine.url
    if database.is_sqlite:
        url = url.set(database=str(Path(str(url.database)).absolute()))
    return url.set(password=None).render_as_string()


def path() -> Path:
    return state_folder() / NAME


def write(head: HeadFile) -> None:
    """Puts the file there at once and whole, readable by its owner alone."""
    fresh = path().with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(codec.canonical(head))
    os.replace(fresh, path())


def remove() -> None:
    path().unlink(missing_ok=True)


def running() -> HeadFile | None:
    """The head of this state folder, or None where none runs; a file that a killed head left is removed."""
    try:
        head = codec.decode(HeadFile, json.loads(path().read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (ValueError, FarmError):  # cut short: no head of ours writes that
        remove()
        return None
    if born(head.pid) == head.born:
        return head
    remove()
    return None


def running_on(database: Database) -> HeadFile | None:
    """The head that runs in this state folder, if it works on that database."""
    head = running()
    return head if head is not None and head.database == label_of(database) else None


def born(pid: int) -> int:
    """When a process started, in ticks since the machine did; 0 for none and for one that has ended.

    An ended process stays as a zombie where nobody reaps it, as under the first process of many containers.
    """
    with suppress(OSError, IndexError, ValueError):
        after_name = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        )
        state, *numbers = after_name.split()
        return 0 if state in ENDED else int(numbers[18])
    return 0


def wait_for_end(head: HeadFile, seconds: float) -> bool:
    """Whether the head's process is gone within that time."""
    until = time.monotonic() + seconds
    while born(head.pid) == head.born:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
