"""A mark in the state folder that agents leave while they have cases, for what keeps their node."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path

NAME = "at-work"


def marking(carry: Callable[[str, str], str], folder: Path) -> Callable[[str, str], str]:
    """`carry`, whose calls leave a mark where they send lines or say that a case is held."""

    @wraps(carry)
    def marked(call: str, text: str) -> str:
        if call == "complete" or (call == "renew" and json.loads(text)["held"]):
            (folder / NAME).touch()
        return carry(call, text)

    return marked


class Marks:
    """What a folder's agents have left since somebody looked."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._seen_ns = self._newest_ns()

    def are_new(self) -> bool:
        """Whether an agent had cases since the last look."""
        before, self._seen_ns = self._seen_ns, self._newest_ns()
        return self._seen_ns != before

    def _newest_ns(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
