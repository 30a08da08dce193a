"""Lines of log that people and programs read: JSON in the state folder, one short line on stderr.

Standard library alone, so that a worker needs nothing else. What is logged has a name and fields:

    LOG = logging.getLogger("farm.agent")
    LOG.info("started", extra={"job": 7, "device": "cpu-0"})
    with writing_to("agent-cpu-0", people=sys.stderr): ...
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import RotatingFileHandler
from math import isfinite
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from workers.state import state_folder

ROOT = "farm"  # of every logger's name
FOLDER = "log"  # in the state folder
MOST_BYTES = 8 << 20  # of one file, after which it becomes FILE.1
KEPT = 4  # older files of a role
LONGEST = 2000  # characters of one field
REMEMBERED = 1024  # texts that were looked through already
HIDDEN = "***"
SECRET_NAMES = re.compile(r"token|secret|password|passwd|authorization|cookie", re.IGNORECASE)
# Passwords in addresses, passwords among options, bearers, and secrets that say what they are.
SECRETS = (
    (re.compile(r"(\w+:/{1,2}[^/\s:@]*):[^/\s]*@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(password|passwd|token|secret)(\s*[=:]\s*)[^\s&;,]+", re.IGNORECASE), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(bearer)\s+\S+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"\bfarm_[A-Za-z0-9_-]{20,}"), HIDDEN),
)
OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

logging.getLogger(ROOT).addHandler(logging.NullHandler())  # silent until somebody wants to hear


@lru_cache(REMEMBERED)
def is_secret(name: str) -> bool:
    """Whether a field of that name must not be written."""
    return SECRET_NAMES.search(name) is not None


class Scrubber:
    """Takes secrets out of what is logged: those it was told, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for one in secrets if one for form in (one, quote(one, safe=""), quote_plus(one))}
        self._known = sorted(forms, key=len, reverse=True)
        self.text = lru_cache(REMEMBERED)(self._text)  # names of boards and workers come again and again

    def _text(self, value: str) -> str:
        for secret in self._known:
            value = value.replace(secret, HIDDEN)
        for pattern, instead in SECRETS:
            value = pattern.sub(instead, value)
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"

    def value(self, name: str, value: Any) -> Any:
        """A field as it may be written; numbers, texts and lists of them stay what they are."""
        return HIDDEN if is_secret(name) else self._value(value)

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
            return value
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return self.text(str(value))

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What the record says beside its name, the error's last line among it."""
        # A library may put fields of its own into every record, Ray its clock: they begin with an underscore.
        given = {
            name: value
            for name, value in vars(record).items()
            if name not in OWN and not name.startswith("_")
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            given["error"] = f"{type(error).__name__}: {error}"
        return {name: self.value(name, value) for name, value in given.items()}


class Lines(logging.Formatter):
    """One JSON object a line: at, level, logger, event, and the fields."""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        head = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix(f"{ROOT}."),
            "pid": record.process,
            "event": self._scrubber.text(record.getMessage()),
        }
        return json.dumps(self._scrubber.fields(record) | head)


class ForPeople(logging.Formatter):
    """`farm: agent started, device=cpu-0`; nothing in it steers a terminal."""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        words = [self._scrubber.text(record.getMessage())]
        words += [f"{name}={_brief(value)}" for name, value in self._scrubber.fields(record).items()]
        return printable(f"farm: {', '.join(words)}")


def _brief(value: Any) -> str:
    several = isinstance(value, list) and len(value) > 3
    return f"{value[0]}…{value[-1]} ({len(value)})" if several else str(value)


def printable(text: str) -> str:
    """The text with what would steer a terminal shown as its code."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class LineFile(RotatingFileHandler):
    """Appends to a file that its owner alone may read; one that can't be written is said once, not raised.

    A full disk stops no campaign.
    """

    def __init__(self, path: Path, complaints: TextIO) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf8", delay=True)
        self._complaints = complaints
        self._complained = False

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf8")

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """By the size there is; the library's own would format every line twice."""
        if self.stream is None:
            self.stream = self._open()
        return os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._complained:
            self._complained = True
            why = sys.exception()
            print(f"farm: {self.baseFilename} can't be written: {why}", file=self._complaints, flush=True)


def log_folder(home: Path | None = None) -> Path:
    return (home or state_folder()) / FOLDER


@contextmanager
def writing_to(
    role: str, *, people: TextIO | None = None, secrets: Iterable[str] = (), folder: Path | None = None
) -> Iterator[Path]:
    """Has what the farm logs written to the role's file, and to `people` in short, while the block runs.

    People aren't shown the ordinary course of jobs, which is told at level debug. `secrets` are values that
    must never be written, whatever the message. A folder that can't be had costs the file, not the work.
    """
    path, scrubber = log_folder(folder) / f"{role}.jsonl", Scrubber(secrets)
    logger = logging.getLogger(ROOT)
    handlers: list[logging.Handler] = []
    try:
        handlers.append(LineFile(path, people or sys.stderr))
        handlers[0].setFormatter(Lines(scrubber))
    except OSError as error:
        print(f"farm: no log in {path.parent}: {error.strerror}", file=people or sys.stderr, flush=True)
    if people is not None:
        shown = logging.StreamHandler(people)
        shown.setLevel(logging.INFO)
        shown.setFormatter(ForPeople(scrubber))
        handlers.append(shown)
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield path
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
