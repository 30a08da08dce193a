"""Reads what the farm's processes logged in a state folder: one stream in the order of time."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kernels.errors import FarmError, UsageError
from workers.log import printable

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
HEAD = ("at", "level", "logger", "pid", "event")  # fields that a line for people shows without their names
SEVERAL = 4  # jobs of a list that a line for people shows


@dataclass(frozen=True)
class Wanted:
    """Which lines; None and empty ask for nothing."""

    campaign: int | None = None
    job: int | None = None
    device: str = ""  # slug
    since: str = ""  # a line's own form of time

    def takes(self, line: dict[str, Any]) -> bool:
        return (
            _is_about(line, "campaign", self.campaign)
            and _is_about(line, "job", self.job)
            and (not self.device or line.get("device") == self.device)
            and line["at"] >= self.since
        )


def _is_about(line: dict[str, Any], noun: str, number: int | None) -> bool:
    """Whether a line names the number, alone or in a list: lines of many jobs have `jobs`."""
    several = line.get(f"{noun}s")
    return number is None or line.get(noun) == number or (isinstance(several, list) and number in several)


def since(text: str, now: datetime) -> str:
    """The moment that `90s`, `30m`, `1h` or `2d` ago was, as lines write it; UsageError for anything else."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if not found:
        raise UsageError(f"--since {text[:40]!r}: write 90s, 30m, 1h or 2d")
    ago = timedelta(**{UNITS[found[2]]: int(found[1])})
    try:
        return (now.astimezone(UTC) - ago).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UsageError(
            f"--since {text}: no calendar goes back that far; leave it out for all lines"
        ) from None


@dataclass
class Logs:
    """The files of a folder, and how far each was read; a file that was turned over keeps its place."""

    folder: Path
    read: int = 0  # lines
    broken: int = 0  # lines that are no line of ours: a process was killed while it wrote one
    _offsets: dict[int, int] = field(default_factory=dict)  # by inode

    def demand_some(self) -> None:
        """FarmError where nobody has logged anything."""
        if not self._files():
            raise FarmError(
                f"no log in {self.folder}; heads, gateways, agents and campaigns of this folder write one"
            )

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Lines that were written since the last call, oldest first, each as text and as what it says."""
        files = self._files()
        self._offsets = {inode: at for inode, at in self._offsets.items() if inode in files}
        streams = [self._lines(inode, path) for inode, path in files.items()]
        return heapq.merge(*streams, key=lambda pair: str(pair[1]["at"]))

    def _files(self) -> dict[int, Path]:
        found = (path for path in sorted(self.folder.glob("*.jsonl*")) if path.is_file())
        return {path.stat().st_ino: path for path in found}

    def _lines(self, inode: int, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        with path.open("rb") as file:
            before = self._offsets.get(inode, 0)
            self._offsets[inode] = file.seek(before if before <= path.stat().st_size else 0)
            for raw in file:
                if not raw.endswith(b"\n"):  # it is being written
                    return
                self._offsets[inode] += len(raw)
                self.read += 1
                if line := _parsed(raw):
                    yield raw.decode().rstrip("\n"), line
                else:
                    self.broken += 1


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and isinstance(line.get("at"), str) else None


def for_people(line: dict[str, Any]) -> str:
    """`2026-11-30T08:01:02.031 warning coordinator  missed  job=7 …`; nothing in it steers a terminal."""
    at = str(line["at"]).removesuffix("+00:00")
    fields = [f"{name}={_brief(value)}" for name, value in line.items() if name not in HEAD and value != ""]
    level, logger, event = (_brief(line.get(name, "")) for name in ("level", "logger", "event"))
    head = f"{at} {level:<7} {logger:<11} {event}"
    return printable("  ".join([head, *([" ".join(fields)] if fields else [])]))


def _brief(value: Any) -> str:
    if isinstance(value, list) and len(value) > SEVERAL:
        return f"{','.join(map(str, value[:SEVERAL]))}…({len(value)})"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
