"""Where our Ray lives: its token, its environment, the ports that it opens, and where it may open them."""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kernels.errors import FarmError, UsageError

FIREWALLED = "FARM_FIREWALLED"
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp
# Set by a user for a Ray of their own; ours must not read them.
NOT_OURS = (
    "RAY_ADDRESS",
    "RAY_AUTH_TOKEN",
    "RAY_NAMESPACE",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_RUNTIME_ENV_HOOK",
)


FOLDER = "farm-ray-"  # of one Ray: this, the process id of its farm, and what makes it unique


def make_folder(parent: Path | None = None) -> str:
    """A folder for a Ray of this process; those of farms that were killed are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    for left in parent.glob(f"{FOLDER}*-*"):
        pid = left.name.removeprefix(FOLDER).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)  # another user's stays
    return tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=parent)


def token_file(home: Path) -> Path:
    """The cluster's token, made on first use, readable by its owner alone."""
    path = home / "token"
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = home / f"token.{os.getpid()}.{secrets.token_hex(4)}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another farm was faster: its token counts
            os.link(fresh, path)
        fresh.unlink()
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise FarmError(
            f"{path} has mode {mode:o} and may be known to others; delete it, the next start makes a new one"
        )
    return path.absolute()


def environment(token: Path, home: Path) -> dict[str, str]:
    """What Ray must find in the environment before it is imported."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        # No port: its monitor tells whoever asks, on every interface and without the token.
        "AUTOSCALER_METRIC_PORT": "-1",
        "FARM_STATE": str(home.absolute()),  # for actors, whatever folder they start in
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leaves CUDA_VISIBLE_DEVICES alone
    }


@contextmanager
def ray_environment(token: Path, home: Path) -> Iterator[None]:
    """The environment of our Ray, for as long as the block runs."""
    before = dict(os.environ)
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ.update(environment(token, home))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def own_address() -> str:
    """The address by which others reach this machine; loopback where there is no network. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: only the route is looked up
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def own_addresses(proc: Path = Path("/proc")) -> tuple[str, ...]:
    """Every address of this machine's interfaces, IPv4 before IPv6; none where there is no /proc."""
    return tuple(dict.fromkeys((*_ipv4(proc / "net/fib_trie"), *_ipv6(proc / "net/if_inet6"))))


def _ipv4(table: Path) -> Iterator[str]:
    """Of a routing table: an address, then, on a line of its own, that it is this host's."""
    address = ""
    with suppress(OSError):
        for line in table.read_text().splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                address = words[1]
            elif words == ["/32", "host", "LOCAL"]:
                yield address


def _ipv6(table: Path) -> Iterator[str]:
    with suppress(OSError):
        for line in table.read_text().splitlines():
            yield str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))


def demand_address(host: str) -> None:
    """UsageError where `--host` names no address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(
            f"--host {host!r} is no IP address; want this machine's own, as 10.0.0.5, or leave it out"
        ) from None


def refuse_public(addresses: Iterable[str], firewalled: bool, option: str) -> None:
    """FarmError where Ray's ports, which listen on every interface, would be open to the internet.

    `option` is what says that a firewall closes them.
    """
    public = public_among(addresses)
    if public and not firewalled:
        raise FarmError(
            f"Ray listens on every interface and this machine's address {public} is public; "
            f"close Ray's ports there with a firewall and say so with {option}"
        )


def public_among(addresses: Iterable[str]) -> str:
    """The first that the internet may reach; empty for none."""
    return next((address for address in addresses if ipaddress.ip_address(address).is_global), "")


def is_firewalled(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment says that a firewall closes Ray's ports."""
    return environ.get(FIREWALLED) == "1"


def listening_ports(root: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """TCP ports on which the process `root` and its descendants listen; empty where there is no /proc."""
    inodes = {inode for pid in descendants(root, proc) for inode in _sockets(proc / str(pid))}
    return tuple(sorted({port for port, inode in _listeners(proc) if inode in inodes}))


def descendants(root: int, proc: Path = Path("/proc")) -> list[int]:
    """`root` and every process below it."""
    children: dict[int, list[int]] = {}
    for entry in proc.glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended meanwhile
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def of_session(session: int, proc: Path = Path("/proc")) -> list[int]:
    """Every process of a session: its leader may be gone, and its children be nobody's."""
    found = []
    for entry in proc.glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended meanwhile
            if int(entry.read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(entry.parent.name))
    return found


def _sockets(process: Path) -> Iterator[str]:
    with suppress(OSError):
        for handle in (process / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(handle)
                if target.startswith("socket:["):
                    yield target[8:-1]


def _listeners(proc: Path) -> Iterator[tuple[int, str]]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (proc / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING:
                    yield int(fields[1].rpartition(":")[2], 16), fields[9]
