"""Hosts on one machine: network namespaces on a bridge, each with a name and a machine id of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NET = "10.77.0"
# A board is known by its machine's id, so each host is shown one of its own, as well as
# what it has in root/.
AS_HOST = """
mount --bind machine-id /etc/machine-id
for each in run etc/wireguard; do [ ! -d "root/$each" ] || mount --bind "root/$each" "/$each"; done
hostname "$1"; shift; exec "$@"
"""
END_S = 60.0
LISTENING = "0A"  # as /proc/net/tcp writes a state, and addresses
LOOPBACK = ("0100007F", "00000000000000000000000001000000")


class Network:
    """Hosts by name; the first has the address 10.77.0.1."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        self.names = names
        self._mark = f"farm{os.getpid()}"
        self._running: list[subprocess.Popen[str]] = []

    def address(self, name: str) -> str:
        return f"{NET}.{self.names.index(name) + 1}"

    def home(self, name: str) -> Path:
        return self.folder / name

    def lay(self) -> None:
        ip("netns", "add", self._space("switch"))
        self._in("switch", "ip", "link", "add", "bridge", "type", "bridge")
        self._in("switch", "ip", "link", "set", "bridge", "up")
        for name in self.names:
            self._attach(name)

    def _attach(self, name: str) -> None:
        space, port = self._space(name), f"p{self.names.index(name)}"
        ip("netns", "add", space)
        ip(
            "-n",
            space,
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            port,
            "netns",
            self._space("switch"),
        )
        self._in("switch", "ip", "link", "set", port, "master", "bridge", "up")
        ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip("-n", space, "link", "set", link, "up")
        self.home(name).mkdir()
        (self.home(name) / "machine-id").write_text(f"{name:0>32}\n")

    def run(self, name: str, *words: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Runs `python -m WORDS…` on a host to its end."""
        return self.call(name, sys.executable, "-m", *words, timeout_s=timeout_s)

    def call(self, name: str, *words: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Runs any program on a host to its end."""
        return subprocess.run(
            self._words(name, *words),
            **self._setting(name),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def start(self, name: str, *words: str) -> Path:
        """Starts `python -m WORDS…` on a host; where what it prints goes."""
        log = self.home(name) / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                self._words(name, sys.executable, "-m", *words), **self._setting(name), stdout=out,
                stderr=out, text=True, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        return log

    def listening(self, name: str) -> set[int]:
        """The TCP ports of a host on which somebody listens, on other addresses than loopback's."""
        tables = ["cat", "/proc/net/tcp", "/proc/net/tcp6"]
        found = ip("netns", "exec", self._space(name), *tables)
        places = [line.split()[1] for line in found.splitlines() if line.split()[3] == LISTENING]
        return {
            int(port, 16)
            for address, port in (place.split(":") for place in places)
            if address not in LOOPBACK
        }

    def end(self) -> None:
        """Ends what was started, the last first."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
        for process in reversed(self._running):
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running = []

    def close(self) -> None:
        """Ends what was started, and takes the network away."""
        self.end()
        for name in (*self.names, "switch"):
            subprocess.run(["ip", "netns", "delete", self._space(name)], capture_output=True, check=False)

    def _space(self, name: str) -> str:
        return f"{self._mark}-{name}"

    def _in(self, name: str, *words: str) -> None:
        ip("netns", "exec", self._space(name), *words)

    def _words(self, name: str, *words: str) -> list[str]:
        enter = ["ip", "netns", "exec", self._space(name), "unshare", "--uts", "--mount"]
        return [*enter, "sh", "-ec", AS_HOST, "host", name, *words]

    def _setting(self, name: str) -> dict[str, object]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("FARM_", "RAY_"))}
        return {
            "cwd": self.home(name),
            "env": env | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"},
        }


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def network(folder: Path, *names: str) -> Iterator[Network]:
    """A network that goes with the block; the test is skipped where this user may lay none."""
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(
                f"no {program} here, so no network of hosts (Debian, Ubuntu: apt-get install iproute2)"
            )
    if os.geteuid() != 0:
        pytest.skip("only root may lay network namespaces: run this test as root")
    made = Network(folder, names)
    try:
        made.lay()
    except subprocess.CalledProcessError as error:
        made.close()
        pytest.skip(f"this machine allows no network namespaces: {error.stderr.strip()}")
    try:
        yield made
    finally:
        made.close()
