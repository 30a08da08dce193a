"""Which ports a node of our Ray may open: besides the head's own, these and no others."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator

from kernels.errors import FarmError

NODE_PORTS = range(10002, 10500)  # a few of a node's own processes, chosen at its start
WORKER_PORTS = range(10500, 11000)  # one for each driver, coordinator and agent, as they come
OPTIONS = ("--node-manager-port", "--object-manager-port", "--runtime-env-agent-port")


def node_ports() -> tuple[int, ...]:
    """Free ones for a node's own processes; FarmError where too few are."""
    return free_ports(len(OPTIONS))


def port_words(chosen: Iterable[int]) -> tuple[str, ...]:
    """The words that keep `ray start` to these ports."""
    own = (f"{option}={port}" for option, port in zip(OPTIONS, chosen, strict=True))
    return *own, f"--min-worker-port={WORKER_PORTS[0]}", f"--max-worker-port={WORKER_PORTS[-1]}"


def free_ports(count: int, among: range = NODE_PORTS) -> tuple[int, ...]:
    """Drawn by chance: nodes that start at once on one machine want others."""
    drawn = random.SystemRandom().sample(among, len(among))
    found = tuple(port for port, _ in zip(_free(drawn), range(count), strict=False))
    if len(found) < count:
        raise FarmError(f"Ray wants {count} free ports of {among[0]}-{among[-1]}; there are {len(found)}")
    return found


def _free(ports: Iterable[int]) -> Iterator[int]:
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port


def told(ports: Iterable[int]) -> str:
    """Those that a node listens on now, and those that it may open later."""
    now = ", ".join(str(port) for port in ports if port not in WORKER_PORTS)
    return f"{now} and, for processes that come and go, {WORKER_PORTS[0]}-{WORKER_PORTS[-1]}"
