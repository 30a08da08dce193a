"""What was compiled once, kept on disk by its content: text, flags, architecture and compiler."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workers.backend import Rejected
from workers.nvrtc.library import Compiled


@dataclass(frozen=True)
class Store:
    """A folder that several processes write to: a file is there whole or not at all."""

    folder: Path

    def compiled(self, key: str, make: Callable[[], Compiled]) -> Compiled:
        """What is kept under a key, or what `make` gives; Rejected is kept too, and raised again."""
        log, cubin = self._text(key), self.code(key)
        if log.exists():
            said = json.loads(log.read_text(encoding="utf8"))
            if said["refused"]:
                raise Rejected(said["refused"])
            return Compiled(cubin.read_bytes(), said["log"], said.get("lowered", ""))
        try:
            made = make()
        except Rejected as error:
            _write(log, json.dumps({"refused": str(error), "log": ""}).encode())
            raise
        _write(cubin, made.cubin)
        _write(
            log, json.dumps({"refused": "", "log": made.log, "lowered": made.lowered}).encode()
        )  # last: it says that the cubin is there
        return made

    def code(self, key: str) -> Path:
        """The file of what was compiled: a cubin, or PTX."""
        return self.folder / f"{key}.cubin"

    def has(self, key: str) -> bool:
        return self._text(key).exists()

    def text(self, key: str) -> str:
        """The text kept under a key."""
        return self._text(key).read_text(encoding="utf8")

    def keep(self, key: str, text: str) -> None:
        _write(self._text(key), text.encode())

    def _text(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def key_of(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
