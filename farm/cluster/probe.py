"""Asks a Ray head who it is before anything joins it: reachable, guarded by a token, of the same versions."""

from __future__ import annotations

import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import FarmError, UsageError

CONNECT_S = 5.0
ANSWER_S = 30.0
METADATA = b"CLUSTER_METADATA"  # what a head says of itself, in the namespace below
NAMESPACE = b"cluster"


class NotAdmitted(FarmError):
    """The head doesn't take this machine in, and won't later: the token or a version is another one."""


class Away(FarmError):
    """Nobody answers at the head's address."""


@dataclass(frozen=True)
class Versions:
    """What must be equal on every machine of a cluster."""

    ray: str
    python: str


def admitted(address: str, token: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Returns where the head takes this machine in; Away where nobody is there, NotAdmitted with why."""
    host, port = split(address)
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        raise Away(f"nobody answers at {address}: {error.strerror or error}") from None
    said = _ask(address, token, environ)
    if isinstance(said, str):
        raise NotAdmitted(f"{address} refuses the token in {token}; copy the head's .farm/token, mode 0600")
    here = own_versions()
    for noun, theirs, ours in (("Ray", said.ray, here.ray), ("Python", said.python, here.python)):
        if theirs != ours:
            raise NotAdmitted(f"{noun} {ours} here, {theirs} at {address}; install the head's version")
    if not _is_guarded(address, environ):
        raise NotAdmitted(f"{address} lets anybody in: it has no token; start the head with farm up")


def split(address: str) -> tuple[str, int]:
    """HOST:PORT; UsageError for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"{address!r} is no head's address; want HOST:PORT as farm up prints it")
    return host.strip("[]"), int(port)


def own_versions() -> Versions:
    from importlib.metadata import version

    return Versions(version("ray"), platform.python_version())


def _is_guarded(address: str, environ: Mapping[str, str]) -> bool:
    """Whether a token that nobody knows is refused."""
    with tempfile.TemporaryDirectory(prefix="farm-probe-") as folder:
        made_up = Path(folder) / "token"
        made_up.write_text(secrets.token_hex(32), encoding="ascii")
        return isinstance(_ask(address, made_up, environ), str)


def _ask(address: str, token: Path, environ: Mapping[str, str]) -> Versions | str:
    """What the head says of itself, or that it refused; in a process of its own: Ray keeps its token."""
    told = dict(environ) | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token.absolute())}
    told.pop("RAY_AUTH_TOKEN", None)
    command = [sys.executable, "-m", "farm.cluster.probe", address]
    try:
        done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        raise Away(f"{address} doesn't answer as a Ray head does") from None
    try:
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise Away(f"{address} doesn't answer as a Ray head does") from None
    if "refused" in said:
        return str(said["refused"])
    return Versions(said["ray_version"], said["python_version"])


def main(address: str) -> None:
    """Prints the head's own words as JSON, or why there are none."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, without types
    from ray.exceptions import AuthenticationError

    try:
        said = GcsClient(address=address).internal_kv_get(METADATA, namespace=NAMESPACE, timeout=CONNECT_S)
    except AuthenticationError:
        print(json.dumps({"refused": "token"}))
        return
    print(said.decode())


if __name__ == "__main__":
    main(sys.argv[1])
